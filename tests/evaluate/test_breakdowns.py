"""Accuracy by program length and by number of examples."""

import polars as pl

from cadmus.evaluate.results import METRICS, by_examples, by_length


def completions(question: str, *programs: tuple[str, int, bool], policy: str = "model") -> pl.DataFrame:
    right = [right for _, _, right in programs]
    return pl.DataFrame(
        {
            "policy": [policy] * len(programs),
            "question": [question] * len(programs),
            "program": [program for program, _, _ in programs],
            "asked": [program for program, _, _ in programs],
            "prompt_length": [length for _, length, _ in programs],
            **dict.fromkeys(METRICS, right),
            "fits": pl.Series(
                right if question == "complete_algorithm" else [None] * len(right), dtype=pl.Boolean
            ),
        }
    )


def test_lengths_are_in_bins_of_four():
    math = completions("basic_math", ("12<", 2, True), ("12+2>", 4, True), ("1234567<", 7, False))
    results = by_length(math).filter(metric="solved")
    assert results.select("question", "shortest", "longest", "programs", "correct").rows() == [
        ("basic_math", 1, 4, 1, 1),
        ("basic_math", 5, 8, 2, 1),
    ]
    assert by_length(math)["metric"].unique(maintain_order=True).to_list() == [
        "solved",
        "exact",
        "next_token",
        "verified",
    ]


def test_questions_are_in_the_order_of_table_3_then_bins_then_policies():
    long, short = ("12+2>", 4, True), ("12<", 2, True)
    given = pl.concat(
        completions(question, *programs, policy=policy)
        for policy in ("model", "constant")
        for question, programs in (
            ("modular_sum", (long, short)),
            ("equality_comparator", (long,)),
            ("equality", (long, short)),
        )
    )
    results = by_length(given).filter(metric="solved")
    assert results.select("question", "shortest", "policy").rows() == [
        ("equality", 1, "model"),
        ("equality", 1, "constant"),
        ("equality", 5, "model"),
        ("equality", 5, "constant"),
        ("equality_comparator", 5, "model"),
        ("equality_comparator", 5, "constant"),
        ("modular_sum", 1, "model"),
        ("modular_sum", 1, "constant"),
        ("modular_sum", 5, "model"),
        ("modular_sum", 5, "constant"),
    ]


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
    for metric in ("solved", "fits"):
        found = results.filter(metric=metric).select("examples", "programs", "correct").rows()
        assert found == [(2, 1, 1), (3, 3, 2)]
    assert by_examples(completions("equality", ("11=", 1, True))).is_empty()
