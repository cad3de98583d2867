"""Labels for state supervision: what the VM's stack holds after every token.

The next-token loss shows the model only the tokens. State supervision also shows it the computation that they
follow from: after every token the program up to there is executed, and the model predicts what is on top of
the stack, from the output of an inner block (:mod:`cadmus.train.objectives.state_supervision`).

Most labels are classes: small integers are classes of their own, larger ones share one; sequences are classed
by length and decorated integers by decoration. Some (:class:`cadmus.config.StateLabels`) look deeper: the
elements of the sequence on top, their sum, or what subroutine 0 makes of it. Others are numbers, as the order
of classes is nothing that a model has to know: the number on top, the one below and their difference.
"""

import numpy as np

from cadmus.config import Dataset, StateLabels, Train
from cadmus.dataset.splits import excluded_pairs
from cadmus.programs import Programs, join
from cadmus.train import NO_TARGET
from cadmus.vm.compiled import execute
from cadmus.vm.values import NUMBER, SEQUENCE, Outcome

LARGEST = 40
"""Integers from -LARGEST to LARGEST are classes of their own."""
LONGEST = 6
"""Sequences of this length or more are one class, as are those of each smaller length."""
ELEMENTS = 3
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
_SUFFIXES = {"top": b"", "elements": b"", "call": b"f", "sum": b"$", "magnitude": b"", "second": b"_"}
"""Instructions executed after the program so far."""


def columns(labels: StateLabels) -> list[float]:
    """Return the weight of each class label of a token."""
    weights = labels.classes().items()
    return [weight for name, weight in weights for _ in range(ELEMENTS if name == "elements" else 1)]


def state_outputs(train: Train) -> int:
    """Return the outputs of the layer for state supervision, 0 without it."""
    labels = train.state_labels
    return CLASSES * len(columns(labels)) + len(labels.numbers()) if train.state_weight else 0


def state_labels(
    programs: Programs, wanted: StateLabels, dataset: Dataset
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the classes and the numbers of every instruction, those of weight 0 left out.

    Classes are int64, numbers float32, of shape (bytes of ``programs.data``, columns). Labels other than
    ``top`` are ``NO_TARGET`` where their value does not exist. Numbers are NAN for other values and beyond
    :data:`MOST`, None if all have weight 0.
    """
    names = [*wanted.classes()]
    if wanted.numbers():
        names += ["magnitude", "second"]
    # The state after an instruction is what the program up to there leaves.
    prefixes, _, _ = programs.all_prefixes()
    outcomes = {suffix: execute(join(prefixes, suffix)) for suffix in {_SUFFIXES[name] for name in names}}
    numbers = _numbers(outcomes, wanted, dataset) if wanted.numbers() else None
    parts = [np.empty((len(prefixes), 0), np.int64)]
    for name in wanted.classes():
        outcome = outcomes[_SUFFIXES[name]]
        sequence, number = outcome.kind == SEQUENCE, outcome.kind == NUMBER
        if name == "elements":
            labels = _classes(outcome.values[:, :ELEMENTS], outcome.decorations[:, :ELEMENTS])
            labels[~sequence[:, None] | (np.arange(ELEMENTS) >= outcome.length[:, None])] = NO_TARGET
        else:
            labels = np.full((len(prefixes), 1), _NO_VALUE if name == "top" else NO_TARGET)
            labels[sequence, 0] = _EMPTY_SEQUENCE + np.minimum(outcome.length[sequence], LONGEST)
            labels[number] = _classes(outcome.values[number, :1], outcome.decorations[number, :1])
        parts.append(labels)
    return np.concatenate(parts, 1), numbers


def _numbers(outcomes: dict[bytes, Outcome], wanted: StateLabels, dataset: Dataset) -> np.ndarray:
    """Return the labels that are numbers; NAN where the value is none, decorated or too large."""
    labels = {}
    for name in ("magnitude", "second"):
        outcome = outcomes[_SUFFIXES[name]]
        value = outcome.values[:, 0].astype(np.float32)
        plain = (outcome.kind == NUMBER) & (outcome.decorations[:, 0] == 0) & (abs(value) <= MOST)
        labels[name] = np.where(plain, value, np.nan)
    # In a definition, the instruction does not drop a value.
    labels["second"][outcomes[b"_"].count == outcomes[b""].count] = np.nan
    labels["difference"] = labels["second"] - labels["magnitude"]
    if not wanted.uncompared:
        # A label for a pair that an OOD rule excludes would tell the model what it should generalize to.
        pairs = np.flatnonzero(~np.isnan(labels["difference"]))
        x, y = (labels[name][pairs].astype(np.int64) for name in ("second", "magnitude"))
        low, high = dataset.values.low, dataset.values.high
        outside = ((x < low) | (x > high)) & ((y < low) | (y > high))
        labels["difference"][pairs[outside | excluded_pairs(dataset, x, y)]] = np.nan
    return np.stack([labels[name] for name in wanted.numbers()], 1)


def _classes(values: np.ndarray, decorations: np.ndarray) -> np.ndarray:
    # int64: the absolute value of the smallest int32 is not one.
    classes = np.where(abs(values.astype(np.int64)) <= LARGEST, _ZERO + values, _OTHER_NUMBER)
    return np.where(decorations > 0, _DECORATED - 1 + decorations.astype(np.int64), classes)
