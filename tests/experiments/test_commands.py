"""Commands of the experiments, on untrained models."""

from pathlib import Path

import polars as pl
import pytest
import torch
from click.testing import Result
from safetensors.torch import save_file

from cadmus import config, experiments, pipeline
from cadmus.config import load_config
from cadmus.dataset.manifest import read_split
from cadmus.evaluate.baselines.policies import BASELINES
from cadmus.evaluate.criteria import second_expressions
from cadmus.evaluate.statistics.results import CEILING, accuracy_by
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from cadmus.train.paths import step_path
from tests import labs
from tests.commands import invoke, refused

CONFIG = """
name: tiny
dataset:
  validation: 5
  test: 30
  max_length: 24
  templates: {equality: {train: 40}, less_greater: {train: 40}}
model: {layers: 1, width: 8, heads: 2, mlp: 16}
train: {steps: 1}
evaluate:
  pass_at_k: {samples: 4}
  induction: {programs: 6, samples: 4}
  grid: {low: -1, high: 1, programs_per_pixel: 2, balanced: 9}
  probe: {train_programs: 60, validation_programs: 20, test_programs: 20, inverse_regularization: [1]}
"""
CONFIG += "".join(f"  {name}: {settings}\n" for name, settings in labs.samples("SETTINGS").items())
OF_LABS = labs.samples("ATTENTION")
"""By a kind of attention, that of models of labs."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Return a directory with a config, an untrained model and a dataset."""
    place = tmp_path_factory.mktemp("experiments")
    (place / "config.yaml").write_text(CONFIG)
    run = load_config(place / "config.yaml")
    torch.manual_seed(0)
    save_export(GPT(run.model), place / "model", {})
    for kind in OF_LABS:
        (place / f"{kind}.yaml").write_text(CONFIG.replace("layers: 1", f"layers: 1, attention: {kind}"))
        save_export(GPT(load_config(place / f"{kind}.yaml").model), place / kind, {})
    for step in (1, 2):
        counts = {"steps": step, "programs": 64 * step, "tokens": 2 * 10**9 * step, "flops": 1e9 * step}
        noted = {"config": run.model_dump(), **counts}
        save_export(GPT(run.model), step_path(place / "snapshots", step), noted)
    pipeline.sample(run, place / "dataset")
    pipeline.dataset(run, place / "dataset")
    return place


def options_of(place: Path, command: str, output: Path, **replaced: object) -> dict[str, object]:
    """Return the options of an experiment on the model and the dataset of a directory."""
    kind = experiments.get(command).attention
    config, model = (f"{kind}.yaml", kind) if kind in OF_LABS else ("config.yaml", "model")
    options: dict[str, object] = {"config": place / config, "output": output}
    options |= {"snapshots": place / "snapshots"} if command == "curve" else {"model": place / model}
    if experiments.get(command).dataset:
        options["dataset"] = place / "dataset"
    return options | replaced


def evaluate(place: Path, command: str, output: Path, **replaced: object) -> Result:
    done = invoke("evaluate", command, **options_of(place, command, output, **replaced))
    assert done.exit_code == 0, done.output
    return done


def refusal(place: Path, command: str, output: Path, **replaced: object) -> str:
    return refused("evaluate", command, **options_of(place, command, output, **replaced))


INDUCTION = ["ceiling", "voted", "greedy", "prior", "total variation", "ideal variation"]


@pytest.mark.parametrize(
    ("command", "rows", "findings", "columns"),
    [
        # Policies (some are absent) and programs of equality and two comparisons.
        # Two equalities are not asked, because their second expressions look like copies.
        ("completions", 9 * 28 + 2 * 7 * 30, 3, ["Tested", "Solved", "Best possible", "Best baseline"]),
        ("loss", 2 * 30, 3, ["Programs", "Tokens", "Loss", "Best possible"]),
        ("pass_at_k", 2 * (28 + 2 * 30), 3, ["model", "training completion"]),
        ("induction", 3 * 6, 3, INDUCTION),
        # Snapshots, questions, metrics.
        ("curve", 2 * 3 * 4, 3, ["step 1", "step 2"]),
        ("grid", 9 + 8, 6, ["Programs", "Accuracy", "Best baseline"]),
        ("probe", 2 * 2 * 11, 2, ["x", "x control", "y", "y control"]),
        *((name, *told) for name, told in labs.samples("COMMANDS").items()),
    ],
)
def test_experiments_write_results_and_print_findings(
    place, tmp_path, command: str, rows: int, findings: int, columns: list[str]
) -> None:
    outputs = [tmp_path / f"{name}.parquet" for name in "ab"]
    told, _ = (evaluate(place, command, output).stdout for output in outputs)
    _, table = told.split("\n\n")
    header, *lines = table.splitlines()
    assert header.split()[1:] == [word for name in columns for word in name.split()]
    assert len(lines) == findings
    assert max(map(len, told.splitlines())) <= 100
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert pl.read_parquet(outputs[0]).height == rows
    metadata = pl.read_parquet_metadata(outputs[0])
    used = load_config(options_of(place, command, tmp_path)["config"])
    assert metadata["config_digest"] == config.digest(used.model_dump())
    assert len(metadata["model_digest"]) == 16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_the_model_and_the_baselines_complete_the_same_programs(place, tmp_path) -> None:
    evaluate(place, "completions", tmp_path / "a.parquet")
    results = pl.read_parquet(tmp_path / "a.parquet")
    # Training programs come from the manifest.
    assert set(results["training_programs"]) == {40}
    assert results["policy"].unique(maintain_order=True).to_list() == ["model", *BASELINES]
    shared = ["template", "question", "program", "prompt_length", "subject", "seen", "training_programs"]
    comparisons = ["equality_comparator", "less_greater"]
    absent = {"operators": ["equality"], **dict.fromkeys(["copy", "rewrite", "retrieval"], comparisons)}
    for (policy,), of_policy in results.group_by("policy"):
        asked = results.filter(~pl.col("question").is_in(absent.get(policy, [])), policy="model")
        assert of_policy.select(shared).equals(asked.select(shared))
    train = read_split(place / "dataset", "train")
    starts = second_expressions(train.programs).tolist()
    trained = {
        (template, " ".join(sorted([program[:start], program[start:-1]])))
        for template, program, start in zip(train.template, train.programs.to_strings(), starts, strict=True)
    }
    assert results["seen"].to_list() == [
        pair in trained for pair in results.select("template", "subject").rows()
    ]


def test_the_models_of_a_dataset_share_its_baselines(place, others, tmp_path) -> None:
    measured = tmp_path / "baselines.parquet"
    options = {"config": place / "config.yaml", "dataset": place / "dataset", "output": measured}
    assert invoke("baselines", **options).exit_code == 0
    outputs = [tmp_path / f"{name}.parquet" for name in ("anew", "shared")]
    for output, given in zip(outputs, ({}, {"baselines": measured}), strict=True):
        evaluate(place, "completions", output, **given)
    anew, shared = map(pl.read_parquet, outputs)
    assert anew.equals(shared)
    foreign = tmp_path / "foreign.parquet"
    theirs = {"config": others / "split.yaml", "dataset": others / "dataset", "output": foreign}
    assert invoke("baselines", **theirs).exit_code == 0
    fewer = {"baselines": measured, "set": "evaluate.completions.programs=3"}
    for given, problem in (
        (
            {"baselines": foreign},
            f"{foreign}: of another dataset than {place / 'dataset'}; measure them anew",
        ),
        (fewer, f"{measured}: of other programs than are asked here; measure them anew"),
        ({"baselines": outputs[0]}, "a file of kind results, not baselines"),
    ):
        assert problem in refusal(place, "completions", tmp_path / "c.parquet", **given)
    assert not (tmp_path / "c.parquet").exists()


@pytest.mark.parametrize("command", experiments.NAMES)
def test_bad_input_is_an_error_and_writes_nothing(place, tmp_path, command: str) -> None:
    output, dataset = tmp_path / "a.parquet", place / "dataset"
    models = "snapshots" if command == "curve" else "model"
    cases = {
        "--output": refusal(place, command, tmp_path / "a.csv"),
        str(dataset): refusal(place, command, output, **{models: dataset}),
        "--device nowhere": refusal(place, command, output, device="nowhere"),
    }
    if experiments.get(command).dataset:
        absent = tmp_path / "no-dataset"
        cases[str(absent)] = refusal(place, command, output, dataset=absent)
    for named, message in cases.items():
        assert named in message
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def others(place, tmp_path_factory) -> Path:
    """Return a directory with configs, models and a dataset that do not fit the others."""
    others = tmp_path_factory.mktemp("others")
    for name, old, new in (
        ("grid", "low: -1, high: 1", "low: 900, high: 901"),
        ("short", "max_length: 24", "max_length: 10"),
        ("split", "max_length: 24", "max_length: 24\n  eval_fraction: 0.2"),
    ):
        (others / f"{name}.yaml").write_text(CONFIG.replace(old, new))
    split, run = load_config(others / "split.yaml"), load_config(place / "config.yaml")
    pipeline.sample(split, others / "dataset")
    pipeline.dataset(split, others / "dataset")
    save_export(GPT(run.model), others / "model", {"config": split.model_dump()})
    save_export(GPT(run.model), step_path(others / "snapshots", 1), {"config": run.model_dump()})
    return others


@pytest.mark.parametrize(
    ("command", "replaced", "message"),
    [
        (
            "pass_at_k",
            {"set": "evaluate.pass_at_k.samples=0"},
            "evaluate.pass_at_k.samples: must be greater than or equal to 1, got 0",
        ),
        ("grid", {"config": "grid.yaml"}, "no test program compares values from 900 to 901"),
        (
            "grid",
            {"model": "model"},
            "eval_fraction: the model was trained with 0.2, the config says 0.05",
        ),
        ("completions", {"config": "short.yaml"}, "has a program of 11 instructions; the config allows"),
        ("completions", {"dataset": "dataset"}, "belong to the training split at dataset.eval_fraction 0.05"),
        ("curve", {"dataset": "dataset"}, "of its test programs, such as"),
        (
            "curve",
            {"snapshots": "snapshots"},
            "meta.json: steps: is missing (and 2 more problems); give the snapshots of a training",
        ),
    ],
)
def test_what_does_not_fit_is_an_error(place, others, tmp_path, command, replaced, message) -> None:
    given = {name: others / value if (others / value).exists() else value for name, value in replaced.items()}
    assert message in refusal(place, command, tmp_path / "a.parquet", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["completions", "curve"])
def test_programs_that_cannot_be_asked_are_an_error(place, tmp_path, command: str, monkeypatch) -> None:
    monkeypatch.setattr("cadmus.evaluate.grading.tasks_of", lambda samples, limit: [])
    message = refusal(place, command, tmp_path / "a.parquet")
    assert "none of its test programs can be asked a question" in message


def test_a_curve_evaluates_the_snapshots_in_order(place, tmp_path) -> None:
    evaluate(place, "curve", tmp_path / "a.parquet")
    curve = pl.read_parquet(tmp_path / "a.parquet")
    steps = curve.select("step", "tokens", "flops").unique(maintain_order=True)
    assert steps.rows() == [(1, 2 * 10**9, 1e9), (2, 4 * 10**9, 2e9)]
    # Each snapshot has the accuracy that `cadmus evaluate completions` finds for it.
    last = step_path(place / "snapshots", 2)
    evaluate(place, "completions", tmp_path / "b.parquet", model=last)
    of_last = curve.filter(pl.col("step") == 2).drop("step", "tokens", "flops", "reinforced")
    completions = pl.read_parquet(tmp_path / "b.parquet").filter(policy="model")
    assert of_last.equals(accuracy_by(completions.drop(CEILING), "question"))


def test_the_default_config_is_the_model_s_with_default_experiments(place, tmp_path) -> None:
    values = load_config(place / "config.yaml").model_dump()
    del values["evaluate"]
    run = config.parse_config(values, "of the model")
    output = tmp_path / "a.parquet"
    snapshot = step_path(place / "snapshots", 1)
    assert invoke("evaluate", "probe", model=snapshot, output=output).exit_code == 0
    metadata = pl.read_parquet_metadata(output)
    assert metadata["config_digest"] == config.digest(run.model_dump())
    message = refused("evaluate", "probe", model=place / "model", output=output)
    assert "meta.json: config: missing; give the config of the training" in message


def test_snapshots_of_models_of_two_sizes_are_an_error(place, tmp_path) -> None:
    run = load_config(place / "config.yaml")
    counts = {"steps": 2, "tokens": 1, "flops": 1.0}
    for width in (8, 16):
        sizes = run.model.model_copy(update={"width": width})
        save_export(GPT(sizes), step_path(tmp_path / "snapshots", width), counts)
    message = refusal(place, "curve", tmp_path / "a.parquet", snapshots=tmp_path / "snapshots")
    assert "step-00000008: has other sizes than" in message


def test_training_on_the_dataset_of_another_config_is_an_error(place, others, tmp_path) -> None:
    files = {name: tmp_path / name for name in ("checkpoints", "output", "metrics")}
    message = refused("train", config=others / "split.yaml", dataset=place / "dataset", **files)
    assert "sampled with another seed or section dataset" in message
    assert not list(tmp_path.iterdir())


def test_features_are_scored_on_the_model(place, tmp_path) -> None:
    features, output = tmp_path / "features.safetensors", tmp_path / "scores.parquet"
    save_file({"layer.0": torch.eye(8), "layer.1": torch.eye(8)[:3]}, features)
    told = invoke("score", features, "--model", place / "model", "-n", 8, "--output", output)
    scores = pl.read_parquet(output)
    assert set(scores["layer"]) == {0, 1}
    # The model is not trained and gets no prompt right.
    assert scores["readable"].is_null().all()
    assert len(told.stdout.splitlines()) == 1 + len(scores)
