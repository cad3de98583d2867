"""Verified completions use every value that their prompt leaves."""

import numpy as np
import pytest

from cadmus import isa
from cadmus.programs import Programs
from cadmus.vm.reference import Number, Sequence, Value, run
from cadmus.vm.verifying import drops, verified
from tests.evaluate.samples import is_verified

LARGEST = "2t*1+t*4+t*7+t*4+t*8+t*3+t*6+t*4+t*7+"


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        # A constant function of one value, of two, and of all elements.
        ("4?B", r"\1;f"),
        ("34+6", r"\1;F"),
        ("350", r"\1;FF"),
        ("350", r"\E=;+f+f"),
        ("u0b1b0@", r"usb\1;m$"),
        # In a definition that the prompt begins or has.
        (r"30\1", ";F"),
        (r"\1;30", "F"),
        # The first argument is lost.
        ("30", r"\1+;F"),
        # A constant in one way or another.
        ("0", "1|"),
        ("350", "1|||"),
        ("0", "E="),
        ("90", "0*!"),
        # Extremes.
        ("350", "1xxx"),
        ("30", "+tt*t*<"),
        ("30", "xZn0<"),
        # A condition that always holds, or never.
        ("30", "11ri"),
        ("03", "0rri"),
        # No sequence is a number; a value is itself.
        ("0", "uY!"),
        ("0", "EY"),
        # All but 0 are the same, and that is a NAN.
        ("5", "E/"),
        # `1` of all but 7,000.
        ("30", "+7t*t*t*=!"),
    ],
)
def test_a_completion_that_swallows_a_value_is_not_verified(prompt: str, completion: str) -> None:
    assert run(prompt + completion).true
    assert not is_verified(prompt, completion)


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        ("34+7", "="),
        ("34+6", ""),
        ("34+6", "=!"),
        ("10", "!"),
        ("t0", "'"),
        ("305", "s!s"),
        ("35", "Y!"),
        ("30", "5ri"),
        ("u1b2b", ""),
        ("u1b2bV", "u2b1bY"),
        (r"\5>;u3b7bEm:", "u3b71:bY"),
        ("8f2=", r"\3-E2>R;"),
        (r"56\*", r";F"),
        # Nothing is left to use.
        (r"\0;", "1"),
        (LARGEST, ""),
        (f"{LARGEST}~1-", "0<"),
        ("53:", "3:"),
        ("53:", '"'),
    ],
)
def test_a_completion_that_uses_every_value_is_verified(prompt: str, completion: str) -> None:
    assert is_verified(prompt, completion)


def test_a_verified_completion_is_true_ended_and_drops_nothing() -> None:
    assert not is_verified("34+7", "=", ended=False)
    assert not is_verified("34+8", "=")
    assert not is_verified("34+7", "=0_")
    assert is_verified("34+7=0_", "")


def test_drops_of_a_part_of_a_batch() -> None:
    batch = Programs.from_strings(["_", "12", "", "1_2", "_"])
    assert drops(batch).tolist() == [True, False, False, True, True]
    part = Programs(batch.data, batch.offsets[1:4])
    assert drops(part).tolist() == [False, False]


def written(value: Value) -> str:
    """Return instructions that leave a value."""
    if isinstance(value, Sequence):
        return "u" + "".join(f"{written(element)}b" for element in value)
    sign = "-" if value.value < 0 else "+"
    text = "0" + "".join(f"t*{digit}{sign}" for digit in str(abs(value.value)))
    return text + (f"{value.decoration}:" if value.decoration else "")


def uses_every_value(prompt: str, completion: str) -> bool:
    """Replace each value that the prompt leaves, in the text, and tell whether each matters."""
    top, bodies = isa.split_definitions(prompt + completion)
    cut = len(isa.split_definitions(prompt)[0])
    definitions = "".join(f"\\{body};" for body in bodies)
    stack = run(top[:cut] + definitions).outputs
    numbers = [written(value) for value in stack if isinstance(value, Number)]
    for place, value in enumerate(stack):
        others = ["0", "1", *(numbers if isinstance(value, Number) else ["u", "u0b", "u1b", "u9b"])]
        texts = [[*map(written, stack[:place]), other, *map(written, stack[place + 1 :])] for other in others]
        left = [run("".join(text) + top[cut:] + definitions).outputs for text in texts]
        if all(None in outputs or outputs == run(prompt + completion).outputs for outputs in left):
            return False
    return True


def test_the_compiled_vm_ignores_what_the_reference_does() -> None:
    """Also a batch is verified as its completions are one by one."""
    rng = np.random.default_rng(0)
    symbols = [*"0123459tZ+-*x=!?'|&EsriufFgRmlbc@L$AYI:\\;;"]
    pairs = []
    while len(pairs) < 2_000:
        prompt, completion = ("".join(rng.choice(symbols, rng.integers(1, 8))) for _ in range(2))
        if run(prompt + completion).true:
            pairs.append((prompt, completion))
    batches = map(Programs.from_strings, zip(*pairs, strict=True))
    found = verified(*batches, np.ones(len(pairs), np.bool_)).tolist()
    assert found == [uses_every_value(*pair) for pair in pairs]
    assert 100 < found.count(False) < found.count(True)
