"""Figures and tables, drawn from tiny results: valid and reproducible."""

import importlib
import itertools
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from PIL import Image

from cadmus import isa
from cadmus.columns import Column, Table
from cadmus.errors import InputError
from cadmus.evaluate.baselines.policies import BASELINES
from cadmus.evaluate.questions import QUESTIONS, title
from cadmus.evaluate.statistics.regions import LEARNED
from cadmus.evaluate.statistics.results import accuracy_by, with_accuracy
from cadmus.experiments import figures, table
from cadmus.experiments.drawing import names_of, produce
from cadmus.figures import (
    accuracy_by_compute,
    comparison_grid,
    grid_regions,
    loss_by_template,
    pass_at_k,
    table3_accuracy,
    training_curve,
)
from cadmus.figures import (
    induction as induction_figure,
)
from cadmus.store import write_parquet
from tests import labs
from tests.commands import invoke
from tests.evaluate.samples import completions_of


def grid(low: int = -3, high: int = 3, empty: bool = True) -> pl.DataFrame:
    """Return ten programs of each pair, wrong on the diagonal as often as its values are large.

    With ``empty``, the first pair lacks a program.
    """
    counts = {"less": -1, "equal": 0, "greater": 1}
    rows = []
    for x, y in itertools.product(range(low, high + 1), repeat=2):
        correct = 10 - abs(x) * (x == y)
        predicted = {name: correct * (np.sign(x - y) == sign) for name, sign in counts.items()}
        inside = max(abs(x), abs(y)) <= 1
        rows.append(
            {"x": x, "y": y, "programs": 10, "correct": correct, **predicted}
            | {**dict.fromkeys(LEARNED, 0), "in_distribution": inside, "balanced": False}
        )
    if empty:
        rows[0] |= {"programs": 0, **dict.fromkeys(("correct", *counts, *LEARNED))}
    balanced = [row | {"balanced": True} for row in rows if row["in_distribution"]]
    return pl.DataFrame(rows + balanced, infer_schema_length=None)


def probes(layers: int = 3) -> pl.DataFrame:
    places = [(target, layer, token) for target in "xy" for layer in range(layers) for token in range(1, 12)]
    results = pl.DataFrame(places, schema=["target", "layer", "token"], orient="row").with_columns(
        programs=pl.lit(100), correct=9 * pl.col("token")
    )
    return with_accuracy(results).with_columns(
        majority=pl.col("accuracy") / 2, control=pl.lit(0.1), inverse_regularization=pl.lit(1.0)
    )


def training() -> pl.DataFrame:
    steps = np.arange(0, 100, 10)
    losses = {"loss": 3 / (1 + steps), "completion_loss": 1 / (1 + steps)}
    return pl.DataFrame({"step": steps, **losses, **dict.fromkeys(("programs", "flops", "seconds"), steps)})


def completions() -> pl.DataFrame:
    """Return completions of two to nine instructions; the model solves three quarters, baselines one."""
    number = np.arange(400)
    columns = {
        "program": ["1" * (2 + k % 8) for k in number],
        "prompt_length": 1 + number % 8,
        "subject": (number % 100).astype(str),
        "completion": [f"<{k}" for k in number],
        "ended": number % 16 != 4,
        "seen": number % 2 == 0,
        "training_programs": 1000,
    }
    return pl.concat(
        completions_of(
            name, policy, number % 4 > 0 if policy == "model" else number % 4 == 1, **columns
        ).with_columns(ceiling=pl.when(policy="model").then(0.8 if question.ceiling else 1.0))
        for policy in ("model", *BASELINES)
        for name, question in QUESTIONS.items()
    )


def curve() -> pl.DataFrame:
    """Return a curve of all questions except random."""
    accuracies = accuracy_by(completions().filter(policy="model"), "question")
    rows = [(1, 1000, 1e12), (10, 10_000, 1e13), (100, 100_000, 1e14)]
    snapshots = pl.DataFrame(rows, ["step", "tokens", "flops"], orient="row")
    curve = accuracies.join(snapshots, how="cross")
    return curve.filter(pl.col("question") != "random").with_columns(reinforced=pl.col("step") == 100)


def samples() -> pl.DataFrame:
    """Return eight samples of each program; k of them are solved, in the baseline none."""
    questions = [(name, question) for name, question in QUESTIONS.items() for _ in range(40)]
    number = pl.int_range(pl.len()) % 40
    of_model = pl.DataFrame(
        {
            "policy": "model",
            "question": [name for name, _ in questions],
            "samples": 8,
            "fits": [4 if question.fits else None for _, question in questions],
            "ceiling": [0.8 if question.ceiling else 1.0 for _, question in questions],
        }
    ).with_columns(
        subject=(number % 20).cast(pl.String),
        solved=number % 5,
        verified=number % 5 + 4,
        greedy_solved=number % 2 == 0,
    )
    guesses = of_model.with_columns(
        policy=pl.lit("training_completion"),
        solved=pl.lit(0, pl.Int64),
        greedy_solved=pl.lit(None, pl.Boolean),
        ceiling=pl.lit(None, pl.Float64),
    )
    return pl.concat([of_model, guesses.select(of_model.columns)])


def induction() -> pl.DataFrame:
    """Return 20 prompts of two splits with 1 to 4 examples; the votes are right in half of them."""
    rows = [
        {
            "split": split,
            "examples": count,
            "functions": 2 ** (k % 4),
            "samples": 8,
            "fits": 2 + k % 4,
            "votes": 2,
            "voted": k % 2 == 0,
            "greedy": k % 4 == 0,
            "prior": False,
            "ceiling": 0.75,
            "total_variation": 0.5,
            "ideal_variation": 0.25,
        }
        for split in ("test", "ood")
        for count in range(1, 5)
        for k in range(20)
    ]
    return pl.DataFrame(rows)


def losses() -> pl.DataFrame:
    """Return the losses of completions of two to five tokens."""
    floors = {"equality": None, "random": 0.1}
    rows = [(name, 2 + k % 4, 0.1 * (k % 5), floor) for name, floor in floors.items() for k in range(40)]
    return pl.DataFrame(rows, schema=["template", "tokens", "loss", "floor"], orient="row")


RESULTS = {
    "grid": grid,
    "probe": probes,
    "curve": curve,
    "completions": completions,
    "loss": losses,
    "pass_at_k": samples,
    "induction": induction,
    "metrics": training,
    **labs.samples("RESULTS"),
}
"""By the source of a figure."""


def results_of(source: str) -> pl.DataFrame:
    """Return results of a source; of an experiment that has none above, any that fit its columns."""
    if source in RESULTS:
        return RESULTS[source]()

    def values(column: Column) -> list[object]:
        low = column.low or 0
        texts = [*column.values, "a", "b"][:2]
        return {int: [low, low + 1], float: [low, low + 0.5], bool: [False, True], str: texts}[column.type]

    declared = table(source)
    return pl.DataFrame({name: values(each) for name, each in declared.columns.items()}, declared.schema)


ANYTHING = {"program": "34+7=", "template": "equality", "subject": "34+7", "prompt_length": 4}
"""Values of columns that no figure reads, if they are not 0, nor null where that is allowed."""


def written(path: Path, results: pl.DataFrame, declared: Table) -> Path:
    """Write results, with values in the columns that no figure reads."""
    missing = {
        name: pl.lit(ANYTHING.get(name, None if declared.columns[name].null else 0), kind)
        for name, kind in declared.schema.items()
        if name not in results.columns
    }
    write_parquet(path, "results", results.with_columns(**missing), {})
    return path


def titles(figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def of_kind(kind: str) -> list[str]:
    return [figure.name for figure in figures().values() if figure.kind == kind]


@pytest.fixture
def results(tmp_path):
    """Return a function that writes the result files of a figure."""

    def write(name: str) -> list[Path]:
        sources = figures()[name].sources
        return [
            written(tmp_path / f"{source}.parquet", results_of(source), table(source)) for source in sources
        ]

    return write


@pytest.fixture
def drawn(results, tmp_path):
    """Return a function that draws twice, compares the bytes, and returns the files."""

    def draw(name: str) -> list[Path]:
        first, again = (produce(name, results(name), tmp_path / place) for place in ("first", "again"))
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
        return first

    return draw


@pytest.mark.parametrize("name", of_kind("figure"))
def test_figures_are_valid_and_reproducible(name: str, drawn) -> None:
    first = drawn(name)
    assert [path.name for path in first] == [f"{name}.pdf", f"{name}.png", f"{name}.csv"]
    assert len(pl.read_csv(first[2])) > 0
    pdf = first[0].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert b"FontFile2" in pdf, "fonts are embedded as TrueType"
    with Image.open(first[1]) as image:
        image.load()
        assert image.width >= 3 * 300
        assert image.mode == "P", "a palette takes a third of the space"
        assert len(image.convert("L").getcolors()) > 10, "something is drawn"


@pytest.mark.parametrize("name", of_kind("table"))
def test_tables_are_complete_and_reproducible(name: str, drawn) -> None:
    first = drawn(name)
    assert [path.suffix for path in first] == [".csv", ".md"]
    assert len(pl.read_csv(first[0], infer_schema=False)) > 0
    markdown = first[1].read_text(encoding="utf-8").splitlines()
    assert len({line.replace("\\|", "").count("|") for line in markdown}) == 1


@pytest.mark.parametrize(
    ("name", "axis"),
    [("accuracy_by_question", 0), ("memory", 0), ("pass_at_k", 1), ("induction", 1)],
)
def test_every_drawn_value_is_a_number_of_the_data(name: str, axis: int) -> None:
    """Or 1 minus it; the accuracies are on the axis of this number."""
    figure = figures()[name]
    module = importlib.import_module(figure.module or f"cadmus.figures.{name}")
    frames = [results_of(source) for source in figure.sources]
    data = module.data(*frames)
    numbers = pl.concat(data[column].cast(pl.Float64) for column in data.select(cs.numeric()).columns)
    known = np.concatenate([numbers.drop_nulls(), 1 - numbers.drop_nulls(), [0, 1]])
    shown = 0
    for axes in module.draw(*frames).axes:
        segments = [
            each for bars in axes.collections if hasattr(bars, "get_segments") for each in bars.get_segments()
        ]
        for points in (*(line.get_xydata() for line in axes.lines), *segments):
            values = points[:, axis][np.isfinite(points[:, axis])]
            assert np.isclose(values[:, None], known).any(1).all()
            shown += len(values)
    assert shown > 10


def test_panels_without_two_points_are_named() -> None:
    # Of one k, a panel has nothing to compare; of a few programs, a point says little.
    one = samples().with_columns(samples=1, solved=0, verified=0, fits=0)
    assert texts(pass_at_k.draw(one)) == ["not tested"]
    few = samples().group_by("question", "policy", maintain_order=True).head(19)
    assert texts(pass_at_k.draw(few)) == ["not tested"]
    assert texts(induction_figure.draw(induction().head(9).with_columns(votes=0))) == ["not tested"] * 4


def test_pass_at_k_shows_both_metrics_and_the_baseline() -> None:
    figure = pass_at_k.draw(samples())
    assert titles(figure) == [title(name) for name in QUESTIONS]
    solved, verified = (
        next(line for line in figure.axes[0].lines if line.get_label() == f"model, {metric}@k")
        for metric in ("solved", "verified")
    )
    assert solved.get_xdata().tolist() == verified.get_xdata().tolist() == [1, 2, 4, 8]
    assert solved.get_ydata()[0] == pytest.approx(2 / 8)
    assert (solved.get_ydata()[-1], verified.get_ydata()[-1]) == (0.8, 1)
    (baseline,) = (line for line in figure.axes[0].lines if "training completion" in str(line.get_label()))
    assert baseline.get_xydata().tolist() == [[1, 0], [2, 0], [4, 0], [8, 0]]
    assert figure.axes[10].lines[3].get_ydata().tolist() == [0.8] * 4
    many = samples().with_columns(samples=pl.lit(1000))
    assert pass_at_k.draw(many).axes[0].get_xticks().tolist() == [1, 4, 16, 64, 256]


def test_a_power_law_is_that_of_the_snapshots_before_reinforcement() -> None:
    of_question = curve().filter(question="equality", metric="solved", step=1).drop("flops", "accuracy")
    # Errors of 0.8, 0.4, 0.2, 0.1 at 1, 4, 16, 64 units: an exponent of -1/2. The last is reinforced.
    points = pl.DataFrame(
        {
            "flops": [1e12 * 4**k for k in range(5)],
            "accuracy": [1 - 0.8 / 2**k for k in range(4)] + [1.0],
        }
    )
    rows = (
        of_question.drop("reinforced")
        .join(points, how="cross")
        .with_columns(reinforced=pl.col("accuracy") == 1)
    )
    (law,) = accuracy_by_compute.laws(rows.select(curve().columns)).to_dicts()
    assert law["exponent"] == pytest.approx(-0.5)
    assert law["low"] == pytest.approx(law["high"])
    assert law["fit"] == pytest.approx(1)
    assert law["snapshots"] == 4
    assert accuracy_by_compute.laws(rows.filter(pl.col("flops") < 1e14).head(3)).is_empty()
    # Of errors of 0.8, 0.5, 0.2 and 0.1, with Student's t of two degrees of freedom, 4.3027.
    scattered = rows.filter(~pl.col("reinforced")).with_columns(accuracy=pl.Series([0.2, 0.5, 0.8, 0.9]))
    (law,) = accuracy_by_compute.laws(scattered.select(curve().columns)).to_dicts()
    interval = [law[name] for name in ("low", "exponent", "high")]
    assert interval == pytest.approx([-0.69933, -0.51610, -0.33286], abs=1e-5)
    figure = accuracy_by_compute.draw(rows.select(curve().columns), completions())
    (panel,) = (axes for axes in figure.axes if axes.get_title() == "equality")
    assert "-0.50 [-0.50, -0.50]" in [text.get_text() for text in panel.texts]
    hollow = [line for line in panel.lines if line.get_markerfacecolor() == "white"]
    assert [line.get_xdata().tolist() for line in hollow] == [[1e12 * 4**4]]
    law_line = next(
        line for line in panel.lines if line.get_linestyle() == "--" and len(line.get_xdata()) == 2
    )
    np.testing.assert_allclose(law_line.get_ydata(), [0.8, 0.05])


def test_table2_has_the_instructions_of_the_paper(tmp_path) -> None:
    produce("table2_instructions", [], tmp_path)
    rows = pl.read_csv(tmp_path / "table2_instructions.csv")
    assert len(rows) == 22
    for instruction, alternate in rows.select("Instruction", "Alternate").iter_rows():
        assert isa.BY_SYMBOL[instruction.strip("`")].alternate == alternate.strip("`")


def test_table3_has_baselines_and_the_accuracies_of_the_paper(tmp_path) -> None:
    written(tmp_path / "n.parquet", completions(), table("completions"))
    produce("table3_accuracy", [tmp_path / "n.parquet"], tmp_path)
    lines = (tmp_path / "table3_accuracy.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[2:]}
    assert list(rows)[:4] == ["basic math", "equality", "equality, comparator", "less greater"]
    assert list(rows)[-2:] == ["complete algorithm", "complete algorithm, fits examples"]
    assert rows["complete algorithm"]["Paper"] == "96.0%"
    assert rows["random"]["Solved"].startswith("75.0% [")
    assert rows["random"]["Best possible"] == "100.0%"
    assert rows["complete algorithm"]["Best possible"] == "80.0%"
    assert rows["random"]["Best baseline"] == "25.0% (ends at once)"
    assert rows["random"]["Gap"].startswith("+50.0 [+")
    numbers = pl.read_csv(tmp_path / "table3_accuracy.csv")
    names = ("question", "policy", "metric")
    assert all(numbers.schema[column].is_numeric() for column in numbers.columns if column not in names)
    (random,) = numbers.filter(question="random", policy="model", metric="solved").to_dicts()
    assert (random["programs"], random["correct"], random["accuracy"]) == (400, 300, 0.75)
    assert (random["gap"], random["paper"], random["training_programs"]) == (0.5, 0.92, 1000)
    assert set(numbers.filter(metric="fits")["question"]) == {"complete_algorithm"}


def test_table3_names_what_is_below_the_best_baseline_and_what_is_absent() -> None:
    # Retrieval solves all random programs and is absent elsewhere.
    retrieval = (pl.col("policy") == "retrieval") & (pl.col("question") == "random")
    graded = (
        completions()
        .filter((pl.col("policy") != "retrieval") | retrieval)
        .with_columns(solved=pl.col("solved") | retrieval)
    )
    results = table3_accuracy.data(graded)
    absent = results.filter(policy="retrieval", question="equality", metric="solved")
    assert absent.select("programs", "correct", "accuracy").row(0) == (None, None, None)
    (row,) = table3_accuracy.table(graded).filter(pl.col("Sub-problem") == "random").to_dicts()
    assert row["Best baseline"] == "100.0% (retrieval)"
    assert re.fullmatch(r"-25\.0 \[-.*, -.*\], below", row["Gap"])
    assert table3_accuracy.below(results) == (
        "The model is below the best baseline on *random*, 75.0% against 100.0% (retrieval). "
        "Retrieval executes completions of the training set until the VM accepts one."
    )
    assert table3_accuracy.below(table3_accuracy.data(completions())) == ""
    assert table3_accuracy.below(results.with_columns(gap_high=pl.lit(0.01))) == ""


def test_the_last_row_of_the_losses_is_all_templates() -> None:
    table = loss_by_template.table(losses())
    assert table["Sub-problem"].to_list() == ["equality", "random", "all"]
    assert table["Programs"].to_list() == ["40", "40", "80"]
    assert table["Tokens"].to_list() == ["140", "140", "280"]
    assert table["Loss"][2].startswith("0.2000 [0.1")
    assert table["Best possible"].to_list() == ["", "0.1000", ""]


def test_the_regions_of_the_grid_have_the_diagonal_of_the_paper(tmp_path) -> None:
    assert texts(comparison_grid.draw(grid())) == []
    written(tmp_path / "grid.parquet", grid(), table("grid"))
    produce("grid_regions", [tmp_path / "grid.parquet"], tmp_path)
    numbers = pl.read_csv(tmp_path / "grid_regions.csv")
    assert set(numbers.schema.values()) == {pl.String, pl.Int64, pl.Float64}
    assert [name for name, kind in numbers.schema.items() if kind == pl.String] == ["region", "best_baseline"]
    assert numbers.filter(region="diagonal")["paper"].to_list() == [0.46]
    # 23 of 30 programs: one pair of the four has none.
    diagonal = (tmp_path / "grid_regions.md").read_text().splitlines()[-2].split(" | ")
    assert diagonal[0] == "| both outside, X = Y"
    assert diagonal[3].startswith("76.7% [")
    assert diagonal[4:6] == ["33.3%", "0.0% (constant)"]
    assert diagonal[-1] == "46.0% |"


def test_regions_without_a_program_are_named() -> None:
    inside = grid(-1, 1, empty=False)
    assert grid_regions.table(inside)["Accuracy"].to_list()[1:-1] == ["none tested"] * 4


def test_repeated_steps_are_plotted_once(tmp_path) -> None:
    losses = {"loss": [5.0, 4, 9, 3, 2], "completion_loss": [3.0, 2, 9, 1, 0.5]}
    unknown = dict.fromkeys(training_curve.OTHERS, None)
    metrics = pl.DataFrame({"step": [1, 2, 3, 2, 3], **losses, **unknown})
    (axes,) = training_curve.draw(metrics).axes
    loss, _, completion_loss, _ = axes.lines
    assert axes.xaxis.get_major_formatter()(12_000) == "12,000"
    assert loss.get_xdata().tolist() == [1, 2, 3]
    assert loss.get_ydata().tolist() == [5, 3, 2]
    assert completion_loss.get_ydata().tolist() == [3, 1, 0.5]


def test_training_curves_of_several_runs_are_drawn_together(tmp_path) -> None:
    runs = [f"run{number}" for number in range(6)]
    for number, run in enumerate(runs):
        path = tmp_path / run / "training/metrics.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(
            "".join(json.dumps({**row, "loss": 1.0 + number}) + "\n" for row in training().to_dicts())
        )
    paths = [tmp_path / run / "training/metrics.jsonl" for run in runs]
    produce("training_curve", paths, tmp_path / "curves.png")
    drawn = pl.read_csv(tmp_path / "curves.csv")
    assert drawn["run"].unique(maintain_order=True).to_list() == runs
    assert drawn.group_by("run", maintain_order=True).agg(pl.col("loss").first())["loss"].to_list() == [
        1.0 + number for number in range(6)
    ]
    (axes,) = training_curve.draw(drawn).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == runs
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines[1::2]}
    assert len(looks) == len(runs)
    with pytest.raises(InputError, match="the same file twice"):
        produce("training_curve", [paths[0], paths[0]], tmp_path)
    with pytest.raises(InputError, match=r"drawn from 1 result files \(grid\), got 2"):
        produce("grid_regions", [paths[0], paths[1]], tmp_path)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("a.jsonl", "b.jsonl"), ["a.jsonl", "b.jsonl"]),
        (("r/a/training/m.jsonl", "r/b/training/m.jsonl"), ["a", "b"]),
        (("r/a/m.jsonl", "r/a/m/m.jsonl"), ["m.jsonl", "m"]),
        (("r/a/x/m.jsonl", "r/b/y/m.jsonl", "r/b/z/m.jsonl"), ["a/x", "b/y", "b/z"]),
    ],
)
def test_runs_are_named_by_what_differs_in_their_paths(paths, names) -> None:
    assert names_of([*map(Path, paths)]) == names


def test_the_command_reads_json_lines_and_prints_its_files(tmp_path) -> None:
    lines = [json.dumps(row) for row in training().to_dicts()]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    files = {"results": tmp_path / "metrics.jsonl", "output": tmp_path / "curve.png"}
    done = invoke("figure", "training_curve", **files)
    assert done.exit_code == 0
    assert done.output.split() == [str(tmp_path / f"curve.{suffix}") for suffix in ("pdf", "png", "csv")]
    assert (tmp_path / "curve.pdf").exists()


def test_invalid_requests_are_errors(results, tmp_path) -> None:
    with pytest.raises(
        InputError, match=r"no figure or table 'pie'; there are table3_accuracy, .*comparison_grid"
    ):
        produce("pie", [], tmp_path)
    with pytest.raises(InputError, match=r"drawn from 1 result files \(grid\), got 0"):
        produce("grid_regions", [], tmp_path)
    with pytest.raises(InputError, match=r"a\.md: comparison_grid is written as \.pdf, \.png, \.csv"):
        produce("comparison_grid", results("comparison_grid"), tmp_path / "a.md")
    with pytest.raises(InputError, match="no column 'target'"):
        produce("probe_layers", results("comparison_grid"), tmp_path)
    assert not list(tmp_path.glob("*.png"))
