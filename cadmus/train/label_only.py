"""Label-only programs: what is labeled and what is compared are two decisions.

Each is a pair of expressions, such as ``99*9-88*8-``, with the label of its state after every token and no
token to predict. Numbers that no training program compares then have a place in the state of a model too.
"""

import numpy as np

from cadmus.config import Dataset, LabelOnly
from cadmus.dataset.splits import TRAIN, split_of
from cadmus.errors import InputError
from cadmus.programs import Programs, join, stack
from cadmus.templates.draw import comparator
from cadmus.templates.expressions import HALF, short_expressions


def label_only(rng: np.random.Generator, n: int, settings: LabelOnly, dataset: Dataset) -> Programs:
    """Draw ``n`` pairs; none is the prompt of a comparison of another split."""
    table = short_expressions(HALF)
    values = np.arange(settings.values[0], settings.values[1] + 1)
    # Not every integer has an expression of this length.
    values = values[table.count(values) > 0]
    if not len(values):
        low, high = settings.values
        raise InputError(
            f"train.label_only.values: no expression of {HALF} instructions has a value from {low} to "
            f"{high}; their values are from {table.extent[0]} to {table.extent[1]}"
        )
    drawn: list[Programs] = []
    while sum(map(len, drawn)) < n:
        x, y = rng.choice(values, (2, n))
        pairs = join(table.sample(rng, x), table.sample(rng, y))
        # A pair of another split would be a hint at its answer.
        split = split_of(join(pairs, comparator(x, y)), dataset.eval_fraction)
        drawn.append(pairs.take(np.flatnonzero(split == TRAIN)))
    return stack(drawn).take(np.arange(n))
