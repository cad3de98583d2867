"""Grading by execution, intervals, the comparison grid."""

import itertools
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.config import Grid, Values
from cadmus.dataset.splits import TEST, split_of
from cadmus.errors import Defect, InputError
from cadmus.evaluate import comparisons, regions
from cadmus.evaluate.completion import complete, second_expression
from cadmus.evaluate.grid import comparison_grid
from cadmus.evaluate.intervals import as_text, wilson
from cadmus.evaluate.results import accuracy_by, read_results, write_results
from cadmus.model.tokens import BYTE_OF_TOKEN
from cadmus.programs import Programs
from cadmus.templates.expressions import expressions
from cadmus.vm.compiled import verdicts
from cadmus.vm.reference import run

SHARE = 0.05


class Answers:
    """A model that completes each prompt as told; ``None`` never ends."""

    def __init__(self, answers: dict[str, str | None]) -> None:
        self.answers = answers

    def complete(self, prompts: Programs, max_length: int) -> tuple[Programs, np.ndarray]:
        told = [self.answers[prompt] for prompt in prompts.to_strings()]
        return Programs.from_strings(text or "" for text in told), np.array(
            [text is not None for text in told]
        )

    def next_logits(self, prompts: Programs) -> np.ndarray:
        told = [(self.answers[prompt] or "") + isa.END for prompt in prompts.to_strings()]
        return np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[[isa.TOKEN_ID[text[0]] for text in told]]


class Comparator:
    """A model that reads two expressions and names their comparator: the true one, or always one."""

    def __init__(self, always: str | None = None) -> None:
        self.always = always

    def next_logits(self, prompts: Programs) -> np.ndarray:
        names = [self.always or self._true(prompt) for prompt in prompts.to_strings()]
        return np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[[isa.TOKEN_ID[name] for name in names]]

    @staticmethod
    def _true(prompt: str) -> str:
        return next(name for name in "<>=" if run(prompt + name).true)


def table_of(template: str, *programs: str, prompt_length: int | list[int]) -> SimpleNamespace:
    return SimpleNamespace(
        programs=Programs.from_strings(programs),
        template=np.array([template] * len(programs), object),
        prompt_length=np.broadcast_to(np.array(prompt_length, np.int64), len(programs)),
    )


def counts(completions: pl.DataFrame, template: str) -> dict[str, int]:
    rows = accuracy_by(completions, "template").filter(template=template)
    return dict(rows.select("metric", "correct").iter_rows())


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe (1998), Table I, the score method without continuity correction.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilson_gives_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(pair: tuple[int, int]) -> None:
    successes, n = pair
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_wilson_of_nothing_and_of_nonsense() -> None:
    assert wilson(0, 0) == (0, 1)
    assert [list(side) for side in wilson(np.array([0, 5]), np.array([0, 5]))][1] == [1, 1]
    with pytest.raises(ValueError, match="within 0 and n"):
        wilson(3, 2)


def test_an_accuracy_as_text() -> None:
    assert as_text(0.5, 0.25, 1.0) == "50.0 % [25.0, 100.0]"
    assert as_text(None, 0.0, 1.0) == "none tested"


def test_scored_accuracy_is_one_minus_the_error_rate() -> None:
    rng = np.random.default_rng(0)
    pairs = list(itertools.islice(itertools.product("0123456789", "123456789"), 60))
    programs = [f"{a}{b}+{b}>" if a != "0" else f"0{b}+{b}=" for a, b in pairs]
    wrong = set(rng.choice(60, 21, replace=False).tolist())
    answers = {program[:4]: "<" if i in wrong else program[4:] for i, program in enumerate(programs)}
    completions = complete(Answers(answers), table_of("basic_math", *programs, prompt_length=4), 63)
    assert counts(completions, "basic_math") == {"verified": 39, "exact": 39, "next_token": 39}
    numbers = accuracy_by(completions, "template")
    assert numbers["programs"].to_list() == [60] * 3
    assert numbers["accuracy"].to_list() == [0.65] * 3
    assert numbers["low"][0] < 0.65 < numbers["high"][0]


def test_each_metric_counts_what_it_says() -> None:
    programs = {
        "34+7=": ("34+7", "="),  # the program's own
        "34+6>": ("34+6", "=!"),  # another true one
        "34+5>": ("34+5", ">!!"),  # true, and begins as the program's own
        "34+4>": ("34+4", "<"),  # false
        "34+3>": ("34+3", "__1"),  # true by dropping
        "34+2>": ("34+2", None),  # no end, though what stands there is true
        "34+1>": ("34+1", ""),  # ended at once: 7 and 1 are both true
    }
    table = table_of("basic_math", *programs, prompt_length=4)
    completions = complete(Answers(dict(programs.values())), table, 63)
    assert counts(completions, "basic_math") == {"verified": 4, "exact": 1, "next_token": 2}
    assert completions["program"].to_list() == list(programs)
    assert completions["completion"].to_list() == [answer or "" for _, answer in programs.values()]
    assert completions["ended"].to_list() == [answer is not None for _, answer in programs.values()]
    assert completions["uses_drop"].to_list() == [answer == "__1" for _, answer in programs.values()]
    assert completions["verified_equality"].null_count() == len(programs)


def test_the_end_is_a_next_token() -> None:
    programs = ("\\L1>;u1b2bf", "\\L1>;u1bf!")
    table = table_of("apply_labels", *programs, prompt_length=[11, 9])
    right = complete(Answers({programs[0]: "", "\\L1>;u1bf": "!"}), table, 63)
    assert counts(right, "apply_labels") == {"verified": 2, "exact": 2, "next_token": 2}
    swapped = complete(Answers({programs[0]: "!", "\\L1>;u1bf": ""}), table, 63)
    assert counts(swapped, "apply_labels") == {"verified": 0, "exact": 0, "next_token": 0}


def test_a_limit_takes_the_first_programs_of_each_template() -> None:
    table = table_of("basic_math", "34+7=", "34+8<", prompt_length=4)
    numbers = complete(Answers({"34+7": "="}), table, 63, limit=1)
    assert counts(numbers, "basic_math") == {"verified": 1, "exact": 1, "next_token": 1}


def test_equality_is_solved_from_after_the_first_expression() -> None:
    program = "941-*55*2+="
    table = table_of("equality", program, prompt_length=10)
    answers = {program[:10]: "=", program[:5]: "39*="}
    numbers = complete(Answers(answers), table, 63)
    assert counts(numbers, "equality") == {"verified": 1, "exact": 1, "next_token": 1}
    assert counts(numbers, "equality_solve") == {
        "verified": 1,
        "verified_equality": 1,
        "exact": 0,
        "next_token": 0,
    }
    # Another comparison is true as well, but solves no equality.
    numbers = complete(Answers({**answers, program[:5]: "9>"}), table, 63)
    solve = counts(numbers, "equality_solve")
    assert (solve["verified"], solve["verified_equality"]) == (1, 0)


@given(st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(0, 10**6)), min_size=2, max_size=2))
def test_the_second_expression_is_found(drawn: list[tuple[int, int]]) -> None:
    tables = [expressions(length).programs for length, _ in drawn]
    first, second = (
        table.take(np.array([k % len(table)])).to_strings()[0]
        for table, (_, k) in zip(tables, drawn, strict=True)
    )
    assert second_expression(f"{first}{second}=") == len(first)


def test_the_second_expression_may_use_any_instruction() -> None:
    assert second_expression("34+4E_3+=") == 3
    assert second_expression("7u3b1b$4-=") == 1
    with pytest.raises(Defect, match="does not end in an expression"):
        second_expression("+=")


def test_held_out_comparisons_are_true_distinct_and_of_the_test_split() -> None:
    x, y = (side.ravel() for side in np.meshgrid([-38, -3, 0, 7, 10**6], [-38, 0, 7], indexing="ij"))
    programs, pair = comparisons.sample_per_pair(np.random.default_rng(1), x, y, 10, SHARE)
    texts = programs.to_strings()
    assert len(set(texts)) == len(texts)
    assert verdicts(programs).all()
    assert (split_of(programs, SHARE) == TEST).all()
    for text, value, other in zip(texts, x[pair], y[pair], strict=True):
        assert [run(text[:5]).outputs[0].value, run(text[5:10]).outputs[0].value] == [value, other]
    found = np.bincount(pair, minlength=len(x))
    assert (found[x == 10**6] == 0).all()
    assert (found[(x != 10**6) & (abs(x) + abs(y) < 38)] == 10).all()


def test_a_small_space_is_used_up() -> None:
    table = expressions(5)
    halves = table.programs.take(table.values == -38).to_strings()
    space = Programs.from_strings(a + b + "=" for a, b in itertools.product(halves, halves))
    expected = set(space.take(split_of(space, 0.2) == TEST).to_strings())
    value = np.array([-38])
    programs, _ = comparisons.sample_per_pair(np.random.default_rng(1), value, value, 100, 0.2)
    assert set(programs.to_strings()) == expected
    assert expected


def grid_of(model: object, low: int = -3, high: int = 3, programs: int = 2) -> pl.DataFrame:
    settings = Grid(low=low, high=high, programs_per_pixel=programs)
    return comparison_grid(model, settings, Values(low=-1, high=1), SHARE, seed=1)


def test_a_perfect_model_fills_the_grid() -> None:
    grid = grid_of(Comparator())
    assert (grid["programs"] == 2).all()
    assert (grid["correct"] == 2).all()
    assert grid.filter("in_distribution").select("x", "y").unique().height == 9
    rows = {row["region"]: row for row in regions.summary(grid).iter_rows(named=True)}
    assert {name: row["programs"] for name, row in rows.items()} == {
        "in_distribution": 18,
        "out_of_distribution": 80,
        "out_of_distribution_diagonal": 8,
    }
    assert all(row["accuracy"] == 1 and row["low"] < 1 for row in rows.values())


def test_a_model_of_one_answer_is_right_on_one_side_of_the_diagonal() -> None:
    grid = grid_of(Comparator(always="<"))
    assert grid.filter((pl.col("correct") == 2) != (pl.col("x") < pl.col("y"))).is_empty()
    distances = regions.by_distance(grid)
    assert distances.filter(pl.col("comparator") == "<")["accuracy"].to_list() == [1, 1, 1]
    assert distances.filter(pl.col("comparator") == "=")["accuracy"].to_list() == [0, 0, 0]
    programs = distances.group_by("distance").agg(pl.col("programs").sum()).sort("distance")
    assert programs.rows() == [(0, 18), (1, 32), (2, 48)]


def test_an_answer_outside_of_the_comparators_is_wrong() -> None:
    assert grid_of(Comparator(always="."))["correct"].sum() == 0


def test_pixels_without_a_program_are_null() -> None:
    # No five-instruction expression gives 730 or more.
    grid = grid_of(Comparator(), low=728, high=731)
    missing = grid.filter((pl.col("x") > 729) | (pl.col("y") > 729))
    assert missing["programs"].to_list() == [0] * 12
    assert missing["correct"].null_count() == 12
    with pytest.raises(InputError, match="within the training range"):
        regions.by_distance(grid)


def test_the_same_seed_gives_the_same_grid() -> None:
    first, second = (
        comparisons.sample_per_pair(np.random.default_rng(3), np.array([1, 5]), np.array([1, 2]), 3, SHARE)[
            0
        ].to_strings()
        for _ in range(2)
    )
    assert first == second


def test_numbers_keep_their_metadata(tmp_path) -> None:
    path = tmp_path / "deep" / "numbers.parquet"
    numbers = pl.DataFrame({"x": [1], "y": [None]}, schema={"x": pl.Int64, "y": pl.Int64})
    write_results(numbers, path, {"commit": "abc"})
    assert read_results(path, ["x", "y"]).equals(numbers)
    assert pl.read_parquet_metadata(path)["commit"] == "abc"
    assert [file.name for file in path.parent.iterdir()] == ["numbers.parquet"]


def test_numbers_without_rows_are_refused(tmp_path) -> None:
    write_results(pl.DataFrame({"x": []}), tmp_path / "x.parquet", {})
    with pytest.raises(InputError, match=r"x\.parquet: has no rows"):
        read_results(tmp_path / "x.parquet", ["x"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.parquet", None, "no such numbers file"),
        ("numbers.xlsx", b"", "a numbers file ends in .parquet, .csv, .jsonl"),
        ("numbers.parquet", b"PAR1 and no more", "damaged or not a .parquet file"),
        ("numbers.jsonl", b'{"step": 1', "damaged or not a .jsonl file"),
        ("numbers.csv", b"step\n1\n", "no column 'loss'; needed are step, loss, found are step"),
        ("numbers.csv", b"step,loss\n1,low\n", "column 'loss' holds String, not numbers"),
        ("numbers.jsonl", b'{"step": 1, "loss": [2]}', "column 'loss' holds List"),
    ],
)
def test_bad_numbers_files_are_one_line(tmp_path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        read_results(path, ["step", "loss"])
    assert "\n" not in str(raised.value)


def test_tokens_and_bytes_agree() -> None:
    assert BYTE_OF_TOKEN.tobytes().decode("ascii") == "".join(row.symbol for row in isa.INSTRUCTIONS)
