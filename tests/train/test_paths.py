"""The files of a training: partial and published ones, snapshots, and what is removed."""

import errno
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cadmus import config, store
from cadmus.columns import NUMBER, Table
from cadmus.errors import InputError
from cadmus.model import WEIGHTS
from cadmus.model.export import check_snapshots, read_metadata, save_export
from cadmus.train.paths import LOCK, RunPaths, find_snapshots, remove_checkpoints, snapshot_steps, step_path
from tests.commands import unfinished
from tests.model.models import SIZES, random_model
from tests.train.runs import run_config, train

LOSSES = Table({"loss": NUMBER})


@pytest.fixture
def paths(tmp_path) -> RunPaths:
    """A training that has reached its end."""
    paths = RunPaths(*(tmp_path / name for name in ("checkpoints", "model", "metrics.jsonl", "snapshots")))
    partial = paths.partial()
    partial.metrics.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 1.5}\n')
    make(partial.snapshots / "step-00000002")
    make(paths.checkpoints / "step-00000002")
    (paths.checkpoints / LOCK).touch()
    return paths


def make(directory: Path, file: str = "meta.json") -> None:
    directory.mkdir(parents=True)
    (directory / file).write_text(str(directory))


def test_publishing_seals_the_metrics_and_removes_the_checkpoints(paths):
    paths.metrics.write_text('{"step": 1, "of": "an earlier run"}')
    make(paths.snapshots / "step-00000001")
    (paths.snapshots / "step-00000001/thesis.tex").touch()
    (paths.snapshots / "notes").touch()
    paths.publish()
    assert sorted(path.name for path in paths.metrics.parent.iterdir()) == ["metrics.jsonl", "snapshots"]
    assert store.read_results(paths.metrics, LOSSES)[0]["loss"].to_list() == [2.5, 1.5]
    assert sorted(path.name for path in paths.snapshots.iterdir()) == [
        "notes",
        "step-00000001",
        "step-00000002",
    ]
    assert [path.name for path in (paths.snapshots / "step-00000001").iterdir()] == ["thesis.tex"]


def test_a_file_that_is_not_of_metrics_is_not_replaced(paths):
    paths.check()
    for path in (paths.metrics, paths.partial().metrics):
        path.write_text("My notes.\n")
        with pytest.raises(
            InputError, match=rf"{path.name}: is not a file of metrics, and metrics would replace it; move it"
        ):
            paths.check()
        path.unlink()


def test_snapshots_of_another_run_are_not_replaced(tmp_path):
    run = {**run_config(), "name": "b", "model": SIZES.model_dump()}
    save_export(random_model(), tmp_path / "step-00000002", {"config": run})
    check_snapshots(tmp_path, "b")
    with pytest.raises(
        InputError, match=r"step-00000002: a snapshot of the run b, which a would replace; move"
    ):
        check_snapshots(tmp_path, "a")


def test_a_readme_of_the_user_stays(tmp_path):
    save_export(random_model(), tmp_path, {})
    card = tmp_path / "README.md"
    store.write_card(card, "# Card\n\nOf these weights.\n")
    store.write_card(card, "# Card\n\nAnother one.\n")
    save_export(random_model(), tmp_path, {})
    assert not card.exists()
    card.write_text("# My notes\n")
    save_export(random_model(), tmp_path, {})
    with pytest.raises(
        InputError, match=r"README.md: is not a card that Cadmus wrote, or was changed since; move"
    ):
        store.write_card(card, "# Card\n")
    assert card.read_text() == "# My notes\n"


def test_files_of_the_user_stay(paths):
    mine = ["notes", "step-old/meta.json", "step-00000004/chapter.txt", "step-0000000x/meta.json"]
    for directory in (paths.checkpoints, paths.partial().snapshots):
        for name in mine:
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    make(paths.checkpoints / "step-00000003", unfinished("meta.json"))
    remove_checkpoints(paths.checkpoints, keep=0)
    left = [path for path in paths.checkpoints.rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(paths.checkpoints)) for path in left) == sorted(mine)
    assert not list(paths.checkpoints.glob("step-0000000[123]"))


def test_the_newest_checkpoints_are_kept(tmp_path):
    for step in (99_999_998, 99_999_999, 100_000_000):
        make(step_path(tmp_path, step))
    make(tmp_path / "step-00000004", "state.safetensors")
    remove_checkpoints(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-100000000", "step-99999999"]


def test_an_error_while_publishing_loses_nothing(paths, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    partial = paths.partial()
    monkeypatch.setattr("shutil.copytree", refuse)
    with pytest.raises(InputError, match=r"cannot write .*snapshots: No space left"):
        paths.publish()
    assert (partial.snapshots / "step-00000002").is_dir()
    assert partial.metrics.exists()
    assert (paths.checkpoints / "step-00000002").is_dir()
    monkeypatch.undo()
    paths.publish()
    assert not paths.checkpoints.exists()


def test_snapshots_are_log_spaced_and_include_the_last_step():
    def steps(number: int, count: int) -> list[int]:
        values = run_config(steps=number, snapshots=count)
        return sorted(snapshot_steps(config.parse_config(values, "test").train))

    assert steps(1000, 3) == [46, 215, 1000]
    assert steps(1000, 1) == [1000]
    assert steps(3, 9) == [1, 2, 3]


def test_a_training_exports_its_snapshots(tmp_path):
    values = run_config(steps=10, snapshots=4)
    make(step_path(tmp_path / "snapshots", 9))
    assert train(tmp_path, values) == 0
    found = find_snapshots(tmp_path / "snapshots")
    assert [path.name for path in found] == [f"step-{step:08d}" for step in (1, 3, 10)]
    noted = [read_metadata(path) for path in found]
    assert [one.steps for one in noted] == [1, 3, 10]
    assert [one.programs for one in noted] == [32, 96, 320]
    weights = [load_file(directory / WEIGHTS) for directory in (found[0], found[-1], tmp_path / "model")]
    assert all(torch.equal(weights[1][name], weights[2][name]) for name in weights[2])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[2])
