"""The 5-gram model."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cadmus import isa
from cadmus.evaluate.ngrams import NGrams
from cadmus.programs import Programs

SYMBOLS = "".join(isa.BY_SYMBOL)


def counted(*programs: str) -> NGrams:
    model = NGrams()
    model.count(Programs.from_strings(programs))
    return model


def complete(model: NGrams, *prompts: str, max_length: int = 63) -> list[tuple[str, bool]]:
    completions, ended = model.complete(Programs.from_strings(prompts), max_length)
    assert completions.lengths.dtype == np.int64
    assert ended.dtype == np.bool_
    return list(zip(completions.to_strings(), ended.tolist(), strict=True))


class Plain:
    """The same model in plain Python."""

    def __init__(self, programs: list[str]) -> None:
        self.after: dict[str, Counter[str]] = defaultdict(Counter)
        for program in programs:
            text = "    " + program + isa.END
            for k in range(4, len(text)):
                for length in range(5):
                    self.after[text[k - length : k]][text[k]] += 1

    def complete(self, prompt: str, max_length: int) -> tuple[str, bool]:
        text = "    " + prompt
        while True:
            context = next(
                text[-k:] if k else "" for k in range(4, -1, -1) if (text[-k:] if k else "") in self.after
            )
            counts = self.after[context]
            token = min(counts, key=lambda symbol: (-counts[symbol], SYMBOLS.index(symbol)))
            if token == isa.END or len(text) - 4 >= max_length:
                return text[4 + len(prompt) :], token == isa.END
            text += token


def test_the_longest_context_that_was_seen_decides() -> None:
    model = counted("12+3=", "12+3=", "12+4>", "92+5<5<")
    assert complete(model, "12+", "12+4", "92+") == [("3=", True), (">", True), ("5<5<", True)]
    # "72+" was not seen, "2+" was, twice before 3.
    assert complete(model, "72+", "7777+", "+") == [("3=", True)] * 3
    # The start of a program is a context too.
    assert complete(model, "", "9") == [("12+3=", True), ("2+5<5<", True)]
    # Nothing seen: the most frequent token is the end, which is before 2 of equal counts.
    assert complete(model, "7") == [("", True)]


def test_completions_stop_at_the_greatest_length() -> None:
    model = counted("1111111111111111")
    assert complete(model, "111", "1", "", max_length=5) == [("11", False), ("1111", False), ("11111", False)]
    # A prompt of the greatest length is not continued, but may end.
    model = counted("12=", "12=")
    assert complete(model, "12", "12=", max_length=3) == [("=", True), ("", True)]
    assert complete(model, "12", max_length=2) == [("", False)]
    assert complete(model, "12=", max_length=2) == [("", True)]


def test_counts_add_up_over_batches() -> None:
    apart = NGrams()
    for programs in (["12+3="], [], ["12+4>", "12+4>"]):
        apart.count(Programs.from_strings(programs))
    together = counted("12+3=", "12+4>", "12+4>")
    for left, right in zip(apart.likeliest(), together.likeliest(), strict=True):
        np.testing.assert_array_equal(left, right)
    assert complete(apart, "12+") == [("4>", True)]


def test_without_programs_there_is_no_completion() -> None:
    for model in (NGrams(), counted()):
        with pytest.raises(ValueError, match="no program was counted"):
            complete(model, "1")
    assert complete(counted("1=")) == []


def drawn(count: int, symbols: str, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(symbols), rng.integers(30))) for _ in range(count)]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.text("12+=E", max_size=12), min_size=1), st.lists(st.text("12+=E7", max_size=12)))
def test_it_agrees_with_plain_python(programs: list[str], prompts: list[str]) -> None:
    plain = Plain(programs)
    expected = [plain.complete(prompt, 20) for prompt in prompts]
    assert complete(counted(*programs), *prompts, max_length=20) == expected


def test_it_agrees_with_plain_python_on_many_contexts() -> None:
    symbols = SYMBOLS.replace(isa.END, "")
    programs = drawn(600, symbols, 1)
    model, plain = counted(*programs), Plain(programs)
    prompts = drawn(200, symbols, 2) + [program[:10] for program in programs[:200]] + [""]
    assert complete(model, *prompts, max_length=40) == [plain.complete(prompt, 40) for prompt in prompts]
