"""Partial and published files of a training."""

from pathlib import Path

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
    (paths.checkpoints / "notes").touch()
    paths.publish()
    assert [path.name for path in paths.checkpoints.iterdir()] == ["notes"]
