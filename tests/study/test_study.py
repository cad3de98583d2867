"""The results of a study, its comparison and its page, from result files made here."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cadmus import experiments, store
from cadmus.config.evaluation import Evaluate, PassAtK
from cadmus.config.study import load_study
from cadmus.errors import Defect, InputError
from cadmus.evaluate.statistics.intervals import programs_error
from cadmus.evaluate.statistics.regions import LEARNED
from cadmus.evaluate.statistics.results import measured
from cadmus.model.flops import parameter_count
from cadmus.study import FILES, PAGE
from cadmus.study.comparison import compare
from cadmus.study.forest import draw
from cadmus.study.page import table, write_all
from cadmus.study.results import MINUTES, TABLE, collect, measured_by, read
from dev.docs.study import publish
from tests.checkout import ROOT
from tests.commands import invoke
from tests.evaluate.samples import completions_of
from tests.figures import test_figures as samples
from tests.study.exports import write_training

TEXT = f"""\
extends: {ROOT}/tests/tiny.yaml
name: demo
study:
  question: Does it <learn>?
  variants:
    base: {{}}
    base, longer: {{train: {{steps: 30}}}}
    tied: {{model: {{tied: true}}}}
    tied, longer: {{model: {{tied: true}}, train: {{steps: 30}}}}
  seeds: [0, 1, 2]
  experiments: [completions, grid]
  compare: [completion_loss, solved, accuracy]
"""
ACCURACY = {"base": 0.5, "tied": 0.7}


@pytest.fixture
def config(finished, tmp_path):
    return Path(shutil.copy(finished / "demo.yaml", tmp_path))


def grid(correct):
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(-21, 22), np.arange(-21, 22)))
    inside = (abs(x) <= 20) & (abs(y) <= 20)
    frame = pl.DataFrame({"x": x, "y": y, "correct": np.where(inside, correct, 0), "in_distribution": inside})
    frame = frame.with_columns(balanced=False)
    others = dict.fromkeys(("less", "equal", "greater", *LEARNED), 0)
    return frame.with_columns(programs=10, **others).select(list(experiments.table("grid").columns))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a directory with a study, the results of all runs, and the file of the collected ones."""
    place = tmp_path_factory.mktemp("finished")
    directory, config = place / "results", place / "demo.yaml"
    config.write_text(TEXT)
    for run in load_study(config).runs:
        accuracy = ACCURACY[run.variant.split(",")[0]] + 0.05 * run.seed
        losses = {"loss": 2.0, "completion_loss": 1.0 - accuracy, "seconds": 60.0}
        steps = [{"step": k, "programs": 8 * k, "flops": 1e9 * k, **losses} for k in range(1, 61)]
        steps[0]["loss"] = 9.0
        write_training(directory, run, steps, 2e12)
        evaluation = directory / run.evaluation
        (evaluation / "experiments").mkdir(parents=True)
        solved = {"model": np.arange(40) < 40 * accuracy, "constant": np.zeros(40, bool)}
        solved["linear"] = np.arange(40) < 4
        completions = pl.concat(completions_of("equality", *each) for each in solved.items())
        store.write_parquet(evaluation / "experiments/completions.parquet", "results", completions, {})
        store.write_parquet(evaluation / "experiments/grid.parquet", "results", grid(9), {})
    assert collect(load_study(config), directory, place / "study.parquet") == []
    return place


@pytest.fixture
def results(finished, tmp_path):
    """Return a directory with the results of all runs."""
    return shutil.copytree(finished / "results", tmp_path / "results")


@pytest.fixture
def collected(finished, tmp_path):
    """Return the file of the collected results."""
    return Path(shutil.copy(finished / "study.parquet", tmp_path))


def test_the_results_are_tidy(config, collected):
    study, found = load_study(config), read(collected)
    assert found.rows.columns == [*TABLE.columns]
    assert (found.name, found.base) == ("demo", "base")
    (row,) = found.rows.filter(variant="tied, longer", seed=1, metric="solved").to_dicts()
    assert (row["template"], row["value"], row["n"], row["baseline"]) == ("equality", 0.75, 40, 0.1)
    assert (row["flops"], row["seconds"], row["programs"]) == (60e9, 60.0, 480)
    assert found.rows.select(MINUTES).to_series().unique().to_list() == [2.0]
    assert row["parameters"] == parameter_count(study.runs[-1].config.model)
    assert row["directory"] == study.runs[-2].training
    of_grid = found.rows.filter(variant="base", seed=0, experiment="grid", template="inside")
    assert of_grid["value"].to_list() == [0.9]
    assert set(found.rows.filter(metric="loss")["value"]) == {2.0}
    losses = found.rows.filter(metric="completion_loss", seed=2)
    assert losses["value"].round(6).unique().sort().to_list() == [0.2, 0.4]
    assert losses["n"].unique().to_list() == [6]


def test_a_study_compares_the_loss_on_test_programs(config, results, tmp_path):
    text = TEXT.replace("experiments: [", "experiments: [loss, ")
    config.write_text(text.replace("[completion_loss,", "[held_out_loss,"))
    study = load_study(config)
    for run in study.runs:
        path = results / run.evaluation / "experiments/loss.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        programs = {"template": "equality", "program": "3;=", "prompt_length": 2, "floor": None}
        rows = [{**programs, "tokens": tokens, "loss": 0.1 * run.seed} for tokens in (1, 3)]
        store.write_parquet(path, "results", pl.DataFrame(rows), {})
    assert collect(study, results, tmp_path / "study.parquet") == []
    found = read(tmp_path / "study.parquet")
    (row,) = found.rows.filter(metric="held_out_loss", variant="tied, longer", seed=2).to_dicts()
    assert (row["experiment"], row["template"], row["n"]) == ("loss", "", 2)
    assert row["value"] == pytest.approx(0.2)
    publish(tmp_path / "study.parquet", tmp_path)
    page = (tmp_path / "docs/findings/demo/README.md").read_text()
    assert "held out loss of test programs in nats" in page


def test_the_comparison_pairs_seeds(collected):
    compared = compare(read(collected))
    (row,) = compared.filter(variant="tied", metric="solved").to_dicts()
    assert row["seeds"] == 3
    assert row["mean"] == pytest.approx(0.75)
    assert row["low"] < 0.7 < 0.8 < row["high"]
    # All seeds differ by the same amount, so the interval is that of the 40 programs alone.
    assert row["difference"] == pytest.approx(0.2)
    half = np.hypot(programs_error(0.55, 40), programs_error(0.75, 40))
    assert row["difference_high"] - 0.2 == pytest.approx(half)
    assert 0.2 - row["difference_low"] == pytest.approx(half)
    (base,) = compared.filter(variant="base", metric="solved").to_dicts()
    assert base["difference"] is None
    # If seeds have different numbers of programs, the fewest count.
    study = read(collected)
    few = study.rows.with_columns(n=pl.when(seed=1).then(10).otherwise("n"))
    (row,) = compare(study._replace(rows=few)).filter(variant="tied", metric="solved").to_dicts()
    half = np.hypot(programs_error(0.55, 10), programs_error(0.75, 10))
    assert row["difference_high"] - 0.2 == pytest.approx(half)


def test_missing_runs_are_named_and_the_others_compared(config, results, tmp_path):
    study = load_study(config)
    lost, failed = study.runs[0], study.runs[-1]
    (results / lost.evaluation / "experiments/grid.parquet").unlink()
    (results / failed.training / "training/metrics.jsonl").unlink()
    (results / failed.training / "logs").mkdir()
    (results / failed.training / "logs/train.log").write_text("step 1\ncadmus: error: NaN loss\n\n")
    missing = collect(study, results, tmp_path / "study.parquet")
    assert [tuple(run) for run in missing] == [
        ("base", 0, "grid: did not start"),
        ("tied, longer", 2, "train: NaN loss"),
    ]
    found = read(tmp_path / "study.parquet")
    assert found.missing == missing
    compared = compare(found).filter(metric="solved", variant="tied, longer")
    assert compared["seeds"].to_list() == [2]
    # One common seed has the interval of the programs, and a loss none.
    assert compared["difference_low"].to_list() == pytest.approx([-0.017], abs=1e-3)
    losses = compare(found).filter(metric="completion_loss", variant="tied, longer")
    assert losses["difference_low"].to_list() == [None]
    write_all(tmp_path / "study.parquet", tmp_path / "demo")
    page = (tmp_path / "demo" / PAGE).read_text()
    assert "tied, longer, seed 2: train: NaN loss" in page


def test_no_finished_run_is_an_error(config, tmp_path):
    message = "demo: no run is finished; base, seed 0: manifest: did not"
    with pytest.raises(InputError, match=message):
        collect(load_study(config), tmp_path / "nothing", tmp_path / "study.parquet")


def test_all_files_are_written(collected, tmp_path):
    written = write_all(collected, tmp_path / "demo")
    assert written == [tmp_path / "demo" / name for name in FILES]
    assert all(path.stat().st_size > 20 for path in written)
    page = (tmp_path / "demo" / PAGE).read_text()
    assert page.startswith("# Does it &lt;learn&gt;?\n\nStudy demo: 12 trainings, ")
    assert page.count("![") == 1
    assert "| solved | " not in page
    assert "| accuracy | inside |" in page
    assert "Missing runs" not in page


def test_publishing_writes_the_files_and_a_part_of_the_page(collected, tmp_path):
    publish(collected, tmp_path / "root")
    page = tmp_path / "root/docs/findings/demo/README.md"
    first = page.read_text()
    assert first.startswith("# Does it &lt;learn&gt;?\n\n<!-- generated")
    linked = re.findall(r"\]\((\S+?)\)", first)
    assert len(linked) == 2
    assert all((page.parent / link).is_file() for link in linked)
    table = first
    assert "| base | 0.4500 ± 0.1242 | 55.0 ± 19.6 |" in table
    # The seeds differ by the same amount: this says nothing about a loss, and 40 programs are few.
    assert "| tied | -0.2000 | +20.0 ± 21.5 |" in table
    assert "| best baseline |  | 10.0 |" in table
    # Text written by hand stays.
    page.write_text(first.replace("\n\n<!--", "\n\nIt does.\n\n<!--", 1))
    publish(collected, tmp_path / "root")
    assert page.read_text() == first.replace("\n\n<!--", "\n\nIt does.\n\n<!--", 1)
    assert not list((tmp_path / "root").rglob(".*"))


def test_a_published_study_shows_how_to_run_it(collected, tmp_path):
    root = tmp_path / "root"
    config = root / "docs/findings/demo/study.yaml"
    for shown in (
        "git grep -l '^name: demo' {} -- '*.yaml'",
        "make run CONFIG=docs/findings/demo/study.yaml",
    ):
        publish(collected, root)
        command = shown.format(read(collected).commit[:7])
        assert command in (root / "docs/findings/demo/README.md").read_text()
        config.parent.mkdir(parents=True, exist_ok=True)
        config.touch()


def test_no_published_width_is_0(collected):
    study = read(collected)
    many = study._replace(rows=study.rows.with_columns(n=pl.lit(10**12, pl.Int64)))
    assert "| tied | -0.2000 | **+20.0 ± 0.1** |" in table(
        compare(many), many.base, "solved", ["completion_loss"]
    )


def test_a_page_without_marks_and_missing_runs_are_not_published(config, results, collected, tmp_path):
    study = load_study(config)
    page = tmp_path / "root/docs/findings/demo/README.md"
    page.parent.mkdir(parents=True)
    page.write_text("# By hand\n")
    with pytest.raises(ValueError, match=r"README\.md: needs one"):
        publish(collected, tmp_path / "root")
    assert [path.name for path in (tmp_path / "root").rglob("*.*")] == ["README.md"]
    (results / study.runs[0].training / "training/metrics.jsonl").unlink()
    collect(study, results, collected)
    with pytest.raises(SystemExit, match="1 runs are missing"):
        publish(collected, tmp_path / "root")


def test_the_figure_has_the_differences_to_the_base(collected):
    study = read(collected)
    axes = draw(study, compare(study)).axes
    assert [panel.get_title() for panel in axes[:2]] == ["completion loss\n0.450", "equality\n55.0%"]
    (points,) = axes[1].lines[:1]
    assert points.get_xdata() == pytest.approx([0, 20, 20])
    variants = compare(study)["variant"].unique(maintain_order=True).to_list()
    # One seed has no pairs, so its means are drawn.
    one = study._replace(rows=study.rows.filter(seed=study.rows["seed"][0]))
    assert len(draw(one, compare(one)).axes[1].lines[0].get_xdata()) == len(variants)
    # Alone, the base has its means.
    alone = study._replace(rows=study.rows.filter(variant="base"))
    panels = draw(alone, compare(alone)).axes
    assert [panel.get_title() for panel in panels[:2]] == ["completion loss", "equality"]
    assert panels[1].lines[0].get_xydata().tolist() == [[pytest.approx(55), 0]]


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("completions", samples.completions),
        ("loss", samples.losses),
        ("pass_at_k", samples.samples),
        ("induction", samples.induction),
        ("grid", samples.grid),
        ("probe", samples.probes),
    ],
)
def test_the_settings_of_an_experiment_name_the_metrics_of_its_summary(name, measured):
    settings = getattr(Evaluate(pass_at_k=PassAtK(samples=8)), name)
    assert set(measured_by(name, measured())["metric"]) == set(settings.metrics)


@pytest.mark.parametrize("column", ["policy", "template"])
def test_metrics_without_a_column_are_a_defect_of_their_experiment(column):
    wrong = replace(
        experiments.get("completions"),
        metrics=lambda results: measured(results) if column == "policy" else results,
    )
    with pytest.raises(Defect, match=f"metrics of {__name__}: .*{column}"):
        wrong.measured(pl.DataFrame({"question": ["a"], "metric": ["solved"]}))


def test_a_metric_that_no_run_has_is_an_error(config, results, tmp_path):
    config.write_text(TEXT.replace("solved", "fits"))
    collect(load_study(config), results, tmp_path / "study.parquet")
    with pytest.raises(InputError, match=r"study\.parquet: study\.compare: no metric 'fits'; "):
        write_all(tmp_path / "study.parquet", tmp_path / "drawn")
    assert not (tmp_path / "drawn").exists()


def test_experiments_without_a_summary_name_no_metrics():
    for name in experiments.NAMES:
        assert bool(getattr(Evaluate(), name).metrics) == bool(experiments.get(name).metrics)


def test_the_commands(config, results, tmp_path):
    listed = invoke("study", "runs", config, results=results).output.splitlines()
    assert len(listed) == 13
    assert all(line.endswith("finished") for line in listed[1:])
    output = tmp_path / "study.parquet"
    assert invoke("study", "collect", config, results=results, output=output).exit_code == 0
    drawn = invoke("study", "draw", output, output=tmp_path / "demo").output.splitlines()
    assert str(tmp_path / "demo" / PAGE) in drawn
