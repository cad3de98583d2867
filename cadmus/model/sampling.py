"""Sampling with temperature and top-p."""

import numpy as np
import torch

from cadmus.common.seeds import generator


class Sampler:
    """Samples the next instructions for :meth:`cadmus.model.inference.Cadmus.complete`.

    Samples depend on the seed, the index of the prompt and its logits, not on the other prompts.

    Args:
        prompts: number of prompts.
        temperature: divisor of the logits, above 0.
        top_p: cumulative probability of the nucleus; instructions outside are never sampled.
        seed: at least 0.
    """

    def __init__(self, prompts: int, temperature: float, top_p: float, seed: int) -> None:
        self.temperature = temperature
        self.top_p = top_p
        self.generators = [generator(seed, prompt) for prompt in range(prompts)]

    def __call__(self, logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        # Logits of at most 0 do not overflow when divided by a small temperature.
        shifted = (logits - logits.max(-1, keepdim=True).values).cpu().double()
        probabilities, order = (
            (shifted / self.temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
        )
        nucleus = probabilities.where(probabilities.cumsum(-1) - probabilities < self.top_p, 0.0)
        reached = nucleus.cumsum(-1)
        drawn = torch.tensor([self.generators[row].random() for row in rows], dtype=torch.float64)
        places = (reached <= drawn[:, None] * reached[:, -1:]).sum(-1)
        return order.gather(-1, places[:, None])[:, 0].numpy()
