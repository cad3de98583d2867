"""Labels for state supervision: what the VM's stack holds after every token.

The next-token loss shows the model only the tokens. State supervision also shows it the computation that they
follow from: after every token the program up to there is executed, and the model predicts what is on top of
the stack, from the output of an inner block (:mod:`cadmus.train.objectives.state_supervision`).

One label is a class: small integers are classes of their own, larger ones share one; sequences are classed by
length and decorated integers by decoration. Others (:class:`cadmus.config.StateLabels`) are numbers, as the
order of classes is nothing that a model has to know: the number on top, the one below and their difference.
"""

import numpy as np

from cadmus import isa
from cadmus.config import Dataset, StateLabels, Train
from cadmus.dataset.splits import excluded_pairs
from cadmus.programs import Programs, join
from cadmus.vm.compiled import execute
from cadmus.vm.values import NUMBER, SEQUENCE, Outcome

LARGEST = 40
"""Integers from -LARGEST to LARGEST are classes of their own."""
LONGEST = 6
"""Sequences of this length or more are one class, as are those of each smaller length."""
MOST = 127
"""Numbers beyond -MOST to MOST have no label that is a number."""
_NO_VALUE = 0
_EMPTY_SEQUENCE = 1
_OTHER_NUMBER = _EMPTY_SEQUENCE + LONGEST + 1
_DECORATED = _OTHER_NUMBER + 1
_ZERO = _DECORATED + 9 + LARGEST
CLASSES = _ZERO + LARGEST + 1
"""A label: no value or NAN, a sequence by its length, any larger integer, an integer by its decoration, and
each small integer without one."""


def state_outputs(train: Train) -> int:
    """Return the outputs of the layers for state supervision, 0 without it."""
    labels = train.state_labels
    return CLASSES * (labels.top > 0) + len(labels.numbers()) if train.state_weight else 0


def state_labels(
    programs: Programs, wanted: StateLabels, dataset: Dataset
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the class of the value on top and the numbers of every instruction.

    Classes are int64 of shape (bytes of ``programs.data``,); numbers are float32, with a column for each one
    that is wanted, NAN for other values and beyond :data:`MOST`, None if none is wanted.
    """
    # The state after an instruction is what the program up to there leaves.
    prefixes, _, _ = programs.all_prefixes()
    outcome = execute(prefixes)
    sequence, number = outcome.kind == SEQUENCE, outcome.kind == NUMBER
    classes = np.full(len(prefixes), _NO_VALUE)
    classes[sequence] = _EMPTY_SEQUENCE + np.minimum(outcome.length[sequence], LONGEST)
    classes[number] = _classes(outcome.values[number, 0], outcome.decorations[number, 0])
    return classes, _numbers(prefixes, outcome, wanted, dataset) if wanted.numbers() else None


def _numbers(prefixes: Programs, outcome: Outcome, wanted: StateLabels, dataset: Dataset) -> np.ndarray:
    """Return the labels that are numbers; NAN where the value is none, decorated or too large."""
    below = execute(join(prefixes, isa.DROP.encode()))
    labels = {"top_number": _plain_numbers(outcome), "second": _plain_numbers(below)}
    # In a definition, the instruction does not drop a value.
    labels["second"][below.count == outcome.count] = np.nan
    labels["difference"] = labels["second"] - labels["top_number"]
    if not wanted.uncompared:
        # A label for a pair that an OOD rule excludes would tell the model what it should generalize to.
        pairs = np.flatnonzero(~np.isnan(labels["difference"]))
        x, y = (labels[name][pairs].astype(np.int64) for name in ("second", "top_number"))
        low, high = dataset.values.low, dataset.values.high
        outside = ((x < low) | (x > high)) & ((y < low) | (y > high))
        labels["difference"][pairs[outside | excluded_pairs(dataset, x, y)]] = np.nan
    return np.stack([labels[name] for name in wanted.numbers()], 1)


def _plain_numbers(outcome: Outcome) -> np.ndarray:
    """Return the numbers on top, without decoration and not too large, others as NAN."""
    value = outcome.values[:, 0].astype(np.float32)
    plain = (outcome.kind == NUMBER) & (outcome.decorations[:, 0] == 0) & (abs(value) <= MOST)
    return np.where(plain, value, np.nan)


def _classes(values: np.ndarray, decorations: np.ndarray) -> np.ndarray:
    # int64: the absolute value of the smallest int32 is not one.
    classes = np.where(abs(values.astype(np.int64)) <= LARGEST, _ZERO + values, _OTHER_NUMBER)
    return np.where(decorations > 0, _DECORATED - 1 + decorations.astype(np.int64), classes)
