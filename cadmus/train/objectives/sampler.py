"""Completions by the model while it trains, with the weights of the current step."""

from typing import Any

import numpy as np
import torch

from cadmus.errors import naming
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from cadmus.train.objectives.objective import Setting


class Sampler:
    """A copy of the model in training, without the layers for state supervision."""

    def __init__(self, setting: Setting) -> None:
        run, device = setting.run, setting.place.device
        self._engine = setting.engine
        # The blocks of the engine's model may be compiled for training. On a CPU this one is fp32: attention
        # to few tokens takes half again as long in bf16.
        bf16 = device.type == "cuda" and run.train.precision == "bf16"
        self._model = GPT(run.model).to(device, torch.bfloat16 if bf16 else torch.float32)

    def complete(
        self, step: int, prompts: Programs, limits: np.ndarray, **sampling: Any
    ) -> tuple[Programs, np.ndarray]:
        """Complete prompts before a step, counted from 0.

        Other arguments, and the results, are those of :meth:`cadmus.model.inference.Cadmus.complete`.
        """
        self._model.load_state_dict(self._engine.module.state_dict(), strict=False)
        with naming(f"step {step + 1}", "lower the learning rates in the section train"):
            return Cadmus(self._model).complete(prompts, limits, **sampling)
