"""Labels for state supervision."""

import math

import numpy as np
import pytest

from cadmus.config import Dataset, StateLabels
from cadmus.programs import Programs
from cadmus.train.labels import (
    CLASSES,
    MOST,
    state_labels,
)
from cadmus.vm.reference import Sequence, Value, run
from tests.model.models import random_programs

NO_VALUE, EMPTY, OTHER, DECORATION_1, ZERO = 0, 1, 8, 9, 58


def classes(programs: Programs) -> np.ndarray:
    return state_labels(programs, StateLabels(), Dataset())[0]


def label(value: Value) -> int:
    """Return the label of a value."""
    if value is None:
        return NO_VALUE
    if isinstance(value, Sequence):
        return EMPTY + min(len(value), 6)
    if value.decoration:
        return DECORATION_1 + value.decoration - 1
    return ZERO + value.value if abs(value.value) <= 40 else OTHER


def top(program: str) -> Value:
    """Return the value on top of the stack by the reference VM."""
    outputs = run(program).outputs
    return outputs[-1] if outputs else None


def test_labels_are_what_every_prefix_leaves() -> None:
    texts = random_programs(300, 1, 14).to_strings()
    # A definition after its call changes what earlier instructions leave.
    texts += ["8f2=\\3-E2>R;", "u1b2b3bf!u1bf\\L2>;", "99*9*", "\\41-*;9f55*2+=", "\\5>;u3b7b9b9bEm:"]
    prefixes = [text[: k + 1] for text in texts for k in range(len(text))]
    found = classes(Programs.from_strings(texts))
    assert found.tolist() == [label(top(prefix)) for prefix in prefixes]
    assert set(found.tolist()) <= set(range(CLASSES))


def number(value: Value) -> float:
    plain = value is not None and not isinstance(value, Sequence) and not value.decoration
    return float(value.value) if plain and abs(value.value) <= MOST else math.nan


def test_numbers_are_those_of_every_prefix() -> None:
    texts = [*random_programs(300, 1, 14).to_strings(), "99*9*", "99*9+98*-", "u1b34", "34+7=", "88*2*1-E1+"]
    wanted = StateLabels(top=0, top_number=1, second=1, difference=1, uncompared=True)
    _, found = state_labels(Programs.from_strings(texts), wanted, Dataset())
    prefixes = [text[: k + 1] for text in texts for k in range(len(text))]
    assert found[-1].tolist() == pytest.approx([math.nan, 127, math.nan], nan_ok=True)
    for prefix, (top_number, second, difference) in zip(prefixes, found.tolist(), strict=True):
        outputs = [None, None, *run(prefix).outputs]
        below, top_one = map(number, outputs[-2:])
        if len(run(prefix + "_").outputs) == len(run(prefix).outputs):
            # In a definition, where only the number on top has a label.
            below = math.nan
        assert [top_number, second, difference] == pytest.approx(
            [top_one, below, below - top_one], nan_ok=True
        )


def test_the_difference_of_numbers_that_are_never_compared_has_no_label() -> None:
    programs = Programs.from_strings(["99+5", "55*5", "55*99*", "055*-55*", "34"])
    labels = {"top": 0, "difference": 1}
    rule = {"values": [[3, 4]], "compared": "both"}
    for wanted, dataset, last in [
        (StateLabels(**labels), Dataset(), [13, 20, math.nan, math.nan, -1]),
        (StateLabels(**labels, uncompared=True), Dataset(), [13, 20, -56, -50, -1]),
        (StateLabels(**labels), Dataset(ood={"gap": rule}), [13, 20, math.nan, math.nan, math.nan]),
    ]:
        found = state_labels(programs, wanted, dataset)[1][programs.offsets[1:] - 1, 0]
        assert found.tolist() == pytest.approx(last, nan_ok=True)
