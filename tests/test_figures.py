"""Every figure and table: drawn from tiny numbers, opened, and the same when drawn again."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from PIL import Image

from cadmus import isa
from cadmus.cli.main import cadmus
from cadmus.config import TEMPLATES
from cadmus.errors import InputError
from cadmus.evaluate.numbers import METRICS, with_accuracy, write_numbers
from cadmus.figures import FIGURES, NAMES, TABLES, produce, tables


def grid(low: int = -3, high: int = 3, empty: bool = True) -> pl.DataFrame:
    x, y = (side.ravel() for side in np.meshgrid(*[np.arange(low, high + 1)] * 2, indexing="ij"))
    numbers = pl.DataFrame({"x": x, "y": y}).with_columns(
        programs=pl.lit(10), correct=10 - (pl.col("x") == pl.col("y")) * pl.col("x").abs()
    )
    if empty:
        unknown = (pl.col("x") == low) & (pl.col("y") == low)
        numbers = numbers.with_columns(
            programs=pl.when(unknown).then(0).otherwise("programs"), correct=pl.when(~unknown).then("correct")
        )
    return numbers.with_columns(in_distribution=pl.max_horizontal(pl.col("x").abs(), pl.col("y").abs()) <= 1)


def probes(layers: int = 3) -> pl.DataFrame:
    places = [(target, layer, token) for target in "xy" for layer in range(layers) for token in range(1, 12)]
    numbers = pl.DataFrame(places, schema=["target", "layer", "token"], orient="row").with_columns(
        programs=pl.lit(100), correct=9 * pl.col("token")
    )
    return with_accuracy(numbers).with_columns(majority=pl.col("accuracy") / 2)


def training() -> pl.DataFrame:
    steps = np.arange(0, 100, 10)
    losses = {"loss": 3 / (1 + steps), "completion_loss": 1 / (1 + steps)}
    return pl.DataFrame({"step": steps, **losses, "tokens": steps * 1000})


def accuracies() -> pl.DataFrame:
    rows = [
        {"template": name, "metric": metric, "training_programs": 1000, "programs": 200, "correct": 150}
        for name in (*TEMPLATES, "equality_solve")
        for metric in METRICS
    ]
    return with_accuracy(pl.DataFrame(rows))


def llm() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "model": ["some-llm"] * 4,
            "symbols": ["normal", "normal", "alternate", "alternate"],
            "max_output_tokens": [500, 2000] * 2,
            "programs": [100] * 4,
            "correct": [50, 90, 2, 4],
        }
    )


NUMBERS = {
    "comparison_grid": grid,
    "probe_final_block": probes,
    "probe_layers": probes,
    "output_tokens": grid,
    "accuracy_by_distance": grid,
    "training_curve": training,
    "table1_related_work": None,
    "table2_instructions": None,
    "table3_accuracy": accuracies,
}


@pytest.fixture
def numbers(tmp_path):
    """Writes the numbers files of a figure."""

    def write(name: str) -> list[Path]:
        if NUMBERS[name] is None:
            return []
        path = tmp_path / "numbers.parquet"
        write_numbers(NUMBERS[name](), path, {})
        return [path]

    return write


def test_every_name_is_tested_here() -> None:
    assert set(NUMBERS) == set(NAMES)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_open_and_are_the_same_again(name: str, numbers, tmp_path) -> None:
    first = produce(name, numbers(name), tmp_path / "first")
    again = produce(name, numbers(name), tmp_path / "again")
    assert [path.name for path in first] == [f"{name}.pdf", f"{name}.png", f"{name}.csv"]
    assert len(pl.read_csv(first[2])) > 0
    for path, other in zip(first, again, strict=True):
        assert path.read_bytes() == other.read_bytes()
    pdf = first[0].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert b"FontFile2" in pdf, "fonts are embedded as TrueType"
    with Image.open(first[1]) as image:
        image.load()
        assert image.width >= 3 * 300
        assert len(image.convert("L").getcolors()) > 10, "something is drawn"


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_whole_and_the_same_again(name: str, numbers, tmp_path) -> None:
    first = produce(name, numbers(name), tmp_path / "first")
    again = produce(name, numbers(name), tmp_path / "again")
    assert [path.suffix for path in first] == [".csv", ".md", ".tex"]
    for path, other in zip(first, again, strict=True):
        assert path.read_bytes() == other.read_bytes()
    rows = pl.read_csv(first[0], infer_schema=False)
    markdown = first[1].read_text(encoding="utf-8").splitlines()
    assert len(markdown) == len(rows) + 2
    assert {line.replace("\\|", "").count("|") for line in markdown} == {rows.width + 1}
    latex = first[2].read_text(encoding="utf-8")
    assert latex.count(r"\\") == len(rows) + 1
    assert latex.isascii()


def test_table2_is_the_paper_s_part_of_the_instructions(tmp_path) -> None:
    produce("table2_instructions", [], tmp_path)
    rows = pl.read_csv(tmp_path / "table2_instructions.csv")
    assert len(rows) == 22
    for instruction, alternate in rows.select("Instruction", "Alternate").iter_rows():
        assert isa.BY_SYMBOL[instruction.strip("`")].alternate == alternate.strip("`")


def test_table3_sets_the_paper_beside_ours(tmp_path) -> None:
    write_numbers(accuracies(), tmp_path / "n.parquet", {})
    produce("table3_accuracy", [tmp_path / "n.parquet"], tmp_path)
    rows = {
        row["Sub-problem"]: row for row in pl.read_csv(tmp_path / "table3_accuracy.csv").iter_rows(named=True)
    }
    assert list(rows)[:4] == ["basic math", "equality", "equality, solve", "less greater"]
    assert rows["complete algorithm"]["Paper: accuracy"] == "96 %"
    assert rows["equality, solve"]["Paper: accuracy"] == ""
    assert rows["random"]["Verified"].startswith("75.0 % [")
    assert rows["random"]["Training programs"] == "1,000"


def test_what_is_special_in_latex_and_markdown_is_escaped() -> None:
    markdown, latex = tables.render(pl.DataFrame({"a_b": ["`|`", "x|y", "`\\`", "5 % → c"]}))
    assert markdown.splitlines() == [
        "| a\\_b |",
        "| --- |",
        "| `\\|` |",
        "| x\\|y |",
        "| `\\` |",
        "| 5 % → c |",
    ]
    assert r"a\_b \\" in latex
    assert r"\texttt{\textbar{}} \\" in latex
    assert r"5 \% $\rightarrow$ c" in latex


def test_output_tokens_names_what_was_not_run(tmp_path) -> None:
    from cadmus.figures.output_tokens import draw

    def texts(figure) -> str:
        return " ".join(text.get_text() for text in [*figure.axes[0].texts, *figure.legends[0].get_texts()])

    alone, together = texts(draw(grid())), texts(draw(grid(), llm()))
    assert "no LLM was run" in alone
    assert "reported" in alone
    assert "no LLM was run" not in together
    assert "some-llm, alternate symbols" in together
    assert "Cadmus, one output token: 98.0 %" not in alone  # computed, not the paper's
    assert "Cadmus, one output token: 97.8 %" in alone


@pytest.mark.parametrize(("layers", "labels"), [(5, 5), (19, 7)])
def test_probe_layers_labels_the_layers_that_fit(layers: int, labels: int) -> None:
    from cadmus.figures.probe_layers import draw

    ticks = [tick.get_text() for tick in draw(probes(layers)).axes[0].get_yticklabels()]
    assert ticks[0] == "embedding"
    assert len(ticks) == labels


def test_a_grid_without_gaps_has_no_legend_for_them() -> None:
    from cadmus.figures.comparison_grid import draw

    def legend(figure) -> list[str]:
        return [text.get_text() for text in figure.legends[0].get_texts()]

    assert legend(draw(grid(empty=False))) == ["in distribution"]
    assert legend(draw(grid(empty=True))) == ["in distribution", "no held-out program"]


def test_a_restarted_training_is_one_curve(tmp_path) -> None:
    from cadmus.figures.training_curve import draw

    metrics = pl.DataFrame(
        {
            "step": [1, 2, 3, 2, 3],
            "loss": [5.0, 4, 9, 3, 2],
            "completion_loss": [3.0, 2, 9, 1, 0.5],
            "tokens": [10, 20, 30, 20, 30],
        }
    )
    loss, _, completion_loss, _ = draw(metrics).axes[0].lines
    assert loss.get_xdata().tolist() == [1, 2, 3]
    assert loss.get_ydata().tolist() == [5, 3, 2]
    assert completion_loss.get_ydata().tolist() == [3, 1, 0.5]


def test_the_command_reads_json_lines_and_names_its_files(tmp_path) -> None:
    lines = [json.dumps(row) for row in training().to_dicts()]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    arguments = ["figure", "training_curve", "--numbers", tmp_path / "metrics.jsonl"]
    done = CliRunner().invoke(cadmus, [*map(str, arguments), "--output", str(tmp_path / "curve.png")])
    assert done.exit_code == 0
    assert done.output.split() == [str(tmp_path / f"curve.{suffix}") for suffix in ("pdf", "png", "csv")]
    assert (tmp_path / "curve.pdf").exists()


def test_bad_requests_are_one_line(numbers, tmp_path) -> None:
    with pytest.raises(InputError, match=r"no figure or table 'pie'; there are comparison_grid, .*table3"):
        produce("pie", [], tmp_path)
    with pytest.raises(InputError, match="drawn from 1 numbers files, not 0; their columns: x, y"):
        produce("comparison_grid", [], tmp_path)
    with pytest.raises(InputError, match="drawn from 1 or 2 numbers files, not 0"):
        produce("output_tokens", [], tmp_path)
    with pytest.raises(InputError, match=r"a\.tex: comparison_grid is written as \.pdf, \.png, \.csv"):
        produce("comparison_grid", numbers("comparison_grid"), tmp_path / "a.tex")
    with pytest.raises(InputError, match="no column 'target'"):
        produce("probe_layers", numbers("comparison_grid"), tmp_path)
    assert not list(tmp_path.glob("*.png"))
