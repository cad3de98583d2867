"""The commands ``evaluate``, ``grid`` and ``probe`` on an untrained model."""

from pathlib import Path

import polars as pl
import pytest
import torch
from click.testing import CliRunner, Result

from cadmus import config
from cadmus.cli.main import cadmus
from cadmus.config import load_config
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.shards import plan, write_shard
from cadmus.errors import InputError
from cadmus.model.export import WEIGHTS, save_export
from cadmus.model.gpt import GPT

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
  grid: {low: -1, high: 1, programs_per_pixel: 2}
  probe: {train_programs: 60, test_programs: 20}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a config, an untrained model and a dataset."""
    place = tmp_path_factory.mktemp("experiments")
    (place / "config.yaml").write_text(CONFIG)
    run = load_config(place / "config.yaml")
    torch.manual_seed(0)
    save_export(GPT(run.model), run.model, place / "model", {})
    for shard in plan(run):
        write_shard(run, place / "dataset", shard.template, shard.split, shard.number)
    write_manifest(run, place / "dataset")
    return place


def invoke(place: Path, command: str, output: Path, **replaced: str) -> Result:
    options = {"config": place / "config.yaml", "model": place / "model", "output": output}
    if command == "evaluate":
        options["dataset"] = place / "dataset"
    arguments = [
        text for name, value in {**options, **replaced}.items() for text in (f"--{name}", str(value))
    ]
    return CliRunner().invoke(cadmus, [command, *arguments])


@pytest.mark.parametrize(("command", "rows"), [("evaluate", 3 + 3 + 4), ("grid", 9), ("probe", 2 * 2 * 11)])
def test_an_experiment_writes_its_numbers_and_their_origin(place, tmp_path, command: str, rows: int) -> None:
    outputs = [tmp_path / f"{name}.parquet" for name in "ab"]
    for output in outputs:
        done = invoke(place, command, output)
        assert done.exit_code == 0, done.output
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert pl.read_parquet(outputs[0]).height == rows
    metadata = pl.read_parquet_metadata(outputs[0])
    assert metadata["config_digest"] == config.digest(load_config(place / "config.yaml").model_dump())
    assert len(metadata["model_digest"]) == 16
    assert metadata["commit"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_training_programs_come_from_the_manifest(place, tmp_path) -> None:
    invoke(place, "evaluate", tmp_path / "a.parquet")
    numbers = pl.read_parquet(tmp_path / "a.parquet")
    assert set(numbers["training_programs"]) == {40}
    assert set(numbers["programs"]) == {30}


@pytest.mark.parametrize("command", ["evaluate", "grid", "probe"])
def test_bad_input_is_one_line_and_leaves_nothing(place, tmp_path, command: str) -> None:
    cases = {
        "--output": invoke(place, command, tmp_path / "a.csv"),
        str(tmp_path / "absent"): invoke(place, command, tmp_path / "a.parquet", model=tmp_path / "absent"),
        "--device nowhere": invoke(place, command, tmp_path / "a.parquet", device="nowhere"),
    }
    if command == "evaluate":
        absent = tmp_path / "no-dataset"
        cases[str(absent)] = invoke(place, command, tmp_path / "a.parquet", dataset=absent)
    for named, result in cases.items():
        assert isinstance(result.exception, InputError), result.output
        assert named in str(result.exception)
        assert "\n" not in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_a_truncated_model_is_bad_input(place, tmp_path) -> None:
    broken = tmp_path / "model"
    broken.mkdir()
    for path in (place / "model").iterdir():
        data = path.read_bytes()
        (broken / path.name).write_bytes(data[: len(data) // 2] if path.name == WEIGHTS else data)
    result = invoke(place, "grid", tmp_path / "a.parquet", model=broken)
    assert isinstance(result.exception, InputError)
    assert not (tmp_path / "a.parquet").exists()


def test_a_model_of_another_split_is_refused(place, tmp_path) -> None:
    run = load_config(place / "config.yaml")
    values = run.model_dump()
    values["dataset"]["held_out_share"] = 0.2
    save_export(GPT(run.model), run.model, tmp_path / "model", {"config": values})
    refused = invoke(place, "grid", tmp_path / "a.parquet", model=tmp_path / "model")
    assert isinstance(refused.exception, InputError)
    assert "trained with dataset.held_out_share 0.2, the config says 0.05" in str(refused.exception)


def test_training_on_the_dataset_of_another_config_is_refused(place, tmp_path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("max_length: 24", "max_length: 25"))
    options = {"config": other, "dataset": place / "dataset"}
    options |= {name: tmp_path / name for name in ("checkpoints", "output", "metrics")}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    refused = CliRunner().invoke(cadmus, ["train", *arguments])
    assert isinstance(refused.exception, InputError)
    assert "sampled with another seed or section dataset" in str(refused.exception)
    assert list(tmp_path.iterdir()) == [other]


def test_a_config_that_does_not_fit_is_one_line(place, tmp_path) -> None:
    (tmp_path / "grid.yaml").write_text(CONFIG.replace("low: -1, high: 1", "low: 900, high: 901"))
    (tmp_path / "short.yaml").write_text(CONFIG.replace("max_length: 24", "max_length: 10"))
    for command, message in (
        ("grid", "no held-out comparison has values from 900 to 901"),
        ("evaluate", "has a program of 11 instructions; the config allows dataset.max_length 10"),
    ):
        path = tmp_path / ("grid.yaml" if command == "grid" else "short.yaml")
        refused = invoke(place, command, tmp_path / "a.parquet", config=path)
        assert isinstance(refused.exception, InputError), refused.output
        assert message in str(refused.exception)
    assert not (tmp_path / "a.parquet").exists()
