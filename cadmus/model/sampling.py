"""Sampling with temperature and top-p."""

import numpy as np
import torch

from cadmus.tools import generator


class Sampler:
    """Samples the next instructions for :meth:`cadmus.model.inference.Cadmus.complete`.

    Samples depend on the seed, the index of the prompt and its logits: not on the other prompts, nor on the
    batches in which they are completed.

    Args:
        prompts: number of prompts.
        temperature: divisor of the logits, above 0.
        seed: at least 0.
        top_p: cumulative probability of the nucleus; instructions outside are never sampled.
        first: index of the first prompt, if others were completed before.
    """

    def __init__(
        self, prompts: int, temperature: float, seed: int, top_p: float = 1.0, first: int = 0
    ) -> None:
        self.temperature, self.seed, self.top_p, self.first = temperature, seed, top_p, first
        self._steps = np.zeros(prompts, np.int64)
        self._uniform: dict[int, np.ndarray] = {}

    def __call__(self, logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        # Logits of at most 0 do not overflow when divided by a small temperature.
        shifted = (logits - logits.max(-1, keepdim=True).values).cpu().double()
        probabilities = (shifted / self.temperature).softmax(-1)
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        nucleus = probabilities.where(probabilities.cumsum(-1) - probabilities < self.top_p, 0.0)
        reached = nucleus.cumsum(-1)
        drawn = torch.from_numpy(self._draw(rows))
        places = (reached <= drawn[:, None] * reached[:, -1:]).sum(-1)
        return order.gather(-1, places[:, None])[:, 0].numpy()

    def _draw(self, rows: np.ndarray) -> np.ndarray:
        """Return the next uniform number of each row, from 0 to below 1: float64, shape (n,)."""
        drawn = np.empty(len(rows))
        steps = self._steps[rows]
        for step in np.unique(steps).tolist():
            if step not in self._uniform:
                # One stream per step, in the order of the prompts: later prompts do not change earlier ones.
                # Two threads may both draw it, and draw the same.
                stream = generator(self.seed, step)
                if self.first:
                    assert isinstance(stream.bit_generator, np.random.PCG64)
                    stream.bit_generator.advance(self.first)
                self._uniform[step] = stream.random(len(self._steps))
            now = steps == step
            drawn[now] = self._uniform[step][rows[now]]
        self._steps[rows] += 1
        return drawn
