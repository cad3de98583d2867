"""How much the experiments on hidden states compute; ``cadmus plan`` asks without torch."""

import numpy as np

from cadmus.evaluate.comparisons import HALF

TOKENS = 2 * HALF + 1
"""Instructions of a program: two expressions and their comparator."""
STATES_BYTES = 2 << 30
"""Memory for hidden states: of as many layers at a time as it holds, and at least of one."""
STEPS = 200
"""Steps with the strongest regularisation; each weaker one has twice those before it."""
BATCHES = 20
"""Minibatches of the rows, if there are enough."""
SMALLEST_BATCH = 100
DRAWN_PER_PAIR = 10
"""Programs that are drawn for a pair whose hidden states are exchanged."""


def layers_at_once(tokens: int, programs: int, width: int) -> int:
    """Layers whose hidden states, in fp32, are in memory at a time."""
    return max(1, STATES_BYTES // (4 * tokens * programs * width))


def steps(place: int) -> int:
    """Steps of a fit with the regularisation at this place, from 0, the strongest being the first."""
    return STEPS << place


def batches(rows: int) -> int:
    """Minibatches that so many rows are fitted in."""
    return int(np.clip(rows // SMALLEST_BATCH, 1, BATCHES))
