"""Partial and published files of a training."""

import errno
from pathlib import Path

import pytest

from cadmus.errors import InputError
from cadmus.train import checkpoint
from cadmus.train.paths import RunPaths


def make(directory: Path, file: str = "meta.json") -> None:
    directory.mkdir(parents=True)
    (directory / file).write_text(str(directory))


def test_partial_paths_are_beside_the_final_ones():
    paths = RunPaths(Path("ck"), Path("model"), Path("run/metrics.jsonl"), Path("run/snapshots"))
    assert paths.partial() == RunPaths(
        Path("ck"), Path("model"), Path("run/metrics.partial.jsonl"), Path("run/snapshots.partial")
    )
    assert RunPaths(Path("ck"), Path("model"), Path("m")).partial().snapshots is None


def test_publishing_moves_files_into_place_and_removes_the_checkpoints(tmp_path):
    paths = RunPaths(
        *(tmp_path / name for name in ("checkpoints", "model", "metrics.jsonl", "snapshots")),
    )
    partial = paths.partial()
    partial.metrics.write_text("new")
    paths.metrics.write_text("of an earlier run")
    make(partial.snapshots / "step-00000002")
    make(paths.snapshots / "step-00000001")
    (paths.snapshots / "notes").touch()
    make(paths.checkpoints / "step-00000002")
    make(paths.checkpoints / f"{checkpoint.UNFINISHED}step-00000003")
    (paths.checkpoints / checkpoint.LOCK).touch()
    paths.publish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "snapshots"]
    assert paths.metrics.read_text() == "new"
    assert sorted(path.name for path in paths.snapshots.iterdir()) == ["notes", "step-00000002"]


def test_other_files_beside_the_checkpoints_stay(tmp_path):
    paths = RunPaths(tmp_path / "checkpoints", tmp_path / "model", tmp_path / "metrics.jsonl")
    paths.partial().metrics.touch()
    make(paths.checkpoints / "step-00000002")
    make(paths.checkpoints / f"{checkpoint.UNFINISHED}step-00000003")
    make(paths.checkpoints / f"{checkpoint.UNFINISHED}removed-step-00000001")
    mine = ["notes", "step-old/meta.json", "unfinished-novel/ch1.txt", "unfinished-step-00000004/ch2.txt"]
    for name in mine:
        path = paths.checkpoints / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    paths.publish()
    left = [path for path in paths.checkpoints.rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(paths.checkpoints)) for path in left) == mine
    assert not list(paths.checkpoints.glob("*step-0000000[123]"))


def test_metrics_for_a_device_are_kept_beside_the_checkpoints(tmp_path):
    paths = RunPaths(tmp_path / "ck", tmp_path / "model", tmp_path / "device")
    paths.metrics.symlink_to("/dev/null")
    partial = paths.partial()
    assert partial.metrics == tmp_path / "ck-metrics.partial.jsonl"
    partial.metrics.write_text("new")
    make(paths.checkpoints / "step-00000002")
    paths.publish()
    assert list(tmp_path.iterdir()) == [paths.metrics]
    assert paths.metrics.is_char_device()


def test_a_leftover_of_a_killed_export_does_not_stop_publishing(tmp_path):
    paths = RunPaths(*(tmp_path / name for name in ("checkpoints", "model", "metrics.jsonl", "snapshots")))
    partial = paths.partial()
    partial.metrics.write_text("new")
    make(partial.snapshots / "step-00000002")
    make(partial.snapshots / ".step-00000001.writing-7")
    make(paths.checkpoints / "step-00000002")
    paths.publish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "snapshots"]
    assert [path.name for path in paths.snapshots.iterdir()] == ["step-00000002"]


def test_an_error_while_publishing_loses_nothing(tmp_path, monkeypatch):
    paths = RunPaths(*(tmp_path / name for name in ("checkpoints", "model", "metrics.jsonl", "snapshots")))
    partial = paths.partial()
    partial.metrics.write_text("new")
    make(partial.snapshots / "step-00000002")
    make(paths.checkpoints / "step-00000002")
    monkeypatch.setattr("shutil.copytree", refuse)
    with pytest.raises(InputError, match=r"cannot write .*snapshots: No space left"):
        paths.publish()
    assert (partial.snapshots / "step-00000002").is_dir()
    assert partial.metrics.exists()
    assert (paths.checkpoints / "step-00000002").is_dir()
    monkeypatch.undo()
    paths.publish()
    assert not paths.checkpoints.exists()


def refuse(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")
