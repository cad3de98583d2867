"""Instructions drawn at random from what a model holds likely."""

import numpy as np
import torch

from cadmus.common.seeds import generator


class Sampler:
    """Draws what :meth:`cadmus.model.inference.Cadmus.complete` goes on with.

    What a prompt gets depends on the seed, its index and its logits, not on the prompts beside it.

    Args:
        prompts: how many there are.
        temperature: by which logits are divided, above 0.
        top_p: share of the probability that the likeliest instructions have to reach; the others are never
            drawn (nucleus sampling).
        seed: at least 0.
    """

    def __init__(self, prompts: int, temperature: float, top_p: float, seed: int) -> None:
        self.temperature = temperature
        self.top_p = top_p
        self.generators = [generator(seed, prompt) for prompt in range(prompts)]

    def __call__(self, logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        # Without the largest logit, that a small temperature divides by no more than 0 does not overflow.
        below = (logits - logits.max(-1, keepdim=True).values).cpu().double()
        shares, order = (below / self.temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
        shares = shares.where(shares.cumsum(-1) - shares < self.top_p, 0.0)
        reached = shares.cumsum(-1)
        drawn = torch.tensor([self.generators[row].random() for row in rows], dtype=torch.float64)
        places = (reached <= drawn[:, None] * reached[:, -1:]).sum(-1)
        return order.gather(-1, places[:, None])[:, 0].numpy()
