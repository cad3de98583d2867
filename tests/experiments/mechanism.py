"""A model of comparisons whose mechanism is known."""

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from cadmus import isa
from cadmus.programs import TOKEN_OF_BYTE, Programs
from cadmus.vm.reference import run

LAYERS, WIDTH = 3, 6
X, X_AT_THE_END, Y = range(3)
"""Directions of the state."""


class Two:
    """Holds x at token 5 up to block 1 and then at token 10, where y is from block 1 on."""

    sizes = SimpleNamespace(layers=LAYERS, width=WIDTH)
    device = torch.device("cpu")

    def next_tokens(self, prompts: Programs) -> np.ndarray:
        ends = torch.full((len(prompts),), 9)
        return self.logits_from(self.states(prompts)[-1], LAYERS, ends).argmax(1).numpy()

    def states(self, prompts: Programs) -> list[Tensor]:
        texts = prompts.to_strings()
        x, y = (
            torch.tensor([run(text[part]).outputs[0].value for text in texts])
            for part in (slice(5), slice(5, 10))
        )
        states = torch.zeros(LAYERS + 1, len(texts), 10, WIDTH)
        states[:2, :, 4, X] = x.float()
        states[2:, :, 9, X_AT_THE_END] = x.float()
        states[1:, :, 9, Y] = y.float()
        return list(states)

    def logits_from(self, states: Tensor, layer: int, ends: Tensor) -> Tensor:
        x = states[:, 4, X] if layer < 2 else states[:, 9, X_AT_THE_END]
        # A value that is not there yet is computed from the tokens: no exchange changes it.
        difference = x - states[:, 9, Y] if layer else 0 * states.sum((1, 2))
        logits = torch.zeros(len(states), isa.VOCABULARY_SIZE) - 100
        logits[:, TOKEN_OF_BYTE[ord("<")]] = -10 * difference
        logits[:, TOKEN_OF_BYTE[ord(">")]] = 10 * difference
        logits[:, TOKEN_OF_BYTE[ord("=")]] = 5
        return logits
