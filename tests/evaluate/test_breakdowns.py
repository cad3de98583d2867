"""Accuracy by program length and by number of examples."""

import polars as pl

from cadmus.evaluate.breakdowns import by_examples, by_length
from cadmus.evaluate.results import METRICS


def completions(template: str, *programs: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "template": template,
            "program": [program for program, _, _ in programs],
            "prompt_length": [length for _, length, _ in programs],
            **{
                metric: [right for _, _, right in programs]
                for metric in METRICS
                if metric != "verified_equality"
            },
            "verified_equality": pl.Series([None] * len(programs), dtype=pl.Boolean),
        }
    )


def test_lengths_are_in_bins_of_four():
    math = completions("basic_math", ("12<", 2, True), ("12+2>", 4, True), ("1234567<", 7, False))
    results = by_length(math).filter(metric="verified")
    assert results.select("template", "shortest", "longest", "programs", "correct").rows() == [
        ("basic_math", 1, 4, 1, 1),
        ("basic_math", 5, 8, 2, 1),
    ]
    assert by_length(math)["metric"].unique().sort().to_list() == ["exact", "next_token", "verified"]
    assert by_length(completions("equality_solve", ("11=", 1, True))).is_empty()


def test_an_example_is_a_call_in_the_prompt():
    r"""Calls inside the definition and in other templates do not count."""
    programs = [
        (r"2f4=3f6=1f2=\2*;", 12, True),
        (r"u3b4bf!u1b2b3bfu2bf!\L2>;", 20, False),
        (r"u2b3bt3F5=12F3=21F3=\+;", 18, True),
        (r"u2b3bmu4b6bY1f2=\E5<Rf2*;", 16, True),
    ]
    results = by_examples(
        pl.concat(
            [completions("complete_algorithm", *programs), completions("subroutines", ("1f2=", 1, True))]
        )
    )
    found = results.filter(metric="exact").select("examples", "programs", "correct").rows()
    assert found == [(2, 1, 1), (3, 3, 2)]
    assert by_examples(completions("equality", ("11=", 1, True))).is_empty()
