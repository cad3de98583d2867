"""Noise of masked diffusion: which tokens of a batch are masked, and how much each one weighs.

A model of masked diffusion restores masked tokens from those that are visible, on both sides (Sahoo et al.
2024, Nie et al. 2025). The tokens after a prompt are its canvas. Each program has one noise level, stratified
over the batch: of the n tokens of its canvas any k are masked, with k uniform in 1 to n, and each of the k
weighs n / k. So the loss is the mean over all orders in which the tokens could be restored one by one, an
upper bound of the negative log-likelihood.

Prompts are not masked, so that questions are what the model has been trained on. In a fraction
``train.masked_diffusion.elsewhere`` of the programs the prompt ends elsewhere, for other questions; the
length of the canvas is then log-uniform. The end of a program is not a token here but a length, which the
last token of the prompt predicts: a canvas has neither ends nor padding that could win before the rest.
"""

from typing import NamedTuple

import numpy as np

from cadmus.model.gpt import MASK_ID
from cadmus.programs import Programs
from cadmus.train import NO_TARGET


class Noise(NamedTuple):
    """Noise of n programs."""

    prompts: np.ndarray
    """int64, shape (n,): tokens before the canvas."""
    asked: np.ndarray
    """bool, shape (n,): the prompt is that of the template."""
    counts: np.ndarray
    """int64, shape (n,): masked tokens."""
    masked: Programs
    """Of each token, 1 if it is masked, else 0."""


def draw_noise(
    rng: np.random.Generator, lengths: np.ndarray, prompt_lengths: np.ndarray, fraction: float
) -> Noise:
    """Draw the noise of programs of ``lengths``, int64 of shape (n,); a ``fraction`` has another prompt."""
    n = len(lengths)
    # From 1 to a program without its first token.
    elsewhere = np.floor(np.exp(rng.random(n) * np.log(lengths))).astype(np.int64)
    asked = rng.random(n) >= fraction
    prompts = np.where(asked, prompt_lengths, lengths - np.minimum(elsewhere, lengths - 1))
    canvas = lengths - prompts
    levels = (rng.permutation(n) + rng.random(n)) / n
    counts = np.minimum(np.floor(levels * canvas).astype(np.int64) + 1, canvas)
    # The tokens of a program in random order, its prompt last: the first of them are masked.
    program = np.repeat(np.arange(n), lengths)
    starts = np.cumsum(lengths) - lengths
    position = np.arange(len(program)) - starts[program]
    order = np.lexsort((rng.random(len(program)), position < prompts[program], program))
    rank = np.empty(len(program), np.int64)
    rank[order] = position
    masked = (rank < counts[program]).astype(np.uint8)
    return Noise(prompts, asked, counts, Programs(masked, np.append(starts, len(program))))


def noised(
    tokens: np.ndarray, offsets: np.ndarray, noise: Noise
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens that a model sees, the targets and their weights; each has a row per token.

    ``tokens`` are int64 ids, those of program i between ``offsets`` i and i + 1.
    """
    lengths = np.diff(offsets)
    masked, canvas = noise.masked.data.astype(np.bool_), lengths - noise.prompts
    targets = np.where(masked, tokens, NO_TARGET)
    # A canvas without a token has no masks.
    weights = np.repeat(canvas / np.maximum(noise.counts, 1), lengths) * masked
    ends = offsets[:-1] + noise.prompts - 1
    targets[ends], weights[ends] = canvas, 1
    return np.where(masked, MASK_ID, tokens), targets, weights.astype(np.float32)
