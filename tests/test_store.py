"""The store: files appear when they are complete, and damaged ones are one line."""

import json
import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from matplotlib.figure import Figure

from cadmus import pipeline, store
from cadmus.columns import COUNT, NUMBER, Table
from cadmus.config import Model, load_config
from cadmus.dataset.manifest import read_manifest, read_split
from cadmus.dataset.sampler import sample
from cadmus.dataset.shards import Shard, write
from cadmus.distribution import VERSION
from cadmus.errors import InputError
from cadmus.figures import style
from cadmus.model.export import load_export, save_export
from cadmus.model.gpt import GPT
from cadmus.records import Sealed
from cadmus.store import TEMPORARY, check_writable, replacing, replacing_together, write_text
from tests.checkout import ROOT
from tests.commands import python, unfinished

CONFIG = load_config(Path(__file__).parent / "tiny.yaml")
SIZES = Model(layers=1, width=64, heads=2, mlp=64)


class Artifact(NamedTuple):
    """A sealed file: how it is made in a directory, its name there, and how it is read."""

    make: Callable[[Path], object] | None
    name: str
    read: Callable[[Path], object]


LOSS = Table({"step": COUNT, "loss": NUMBER})
RESULTS = pl.DataFrame({"step": range(500), "loss": [1 / (1 + k) for k in range(500)]})
ARTIFACTS = {
    "manifest": Artifact(None, "manifest.json", read_manifest),
    "shard": Artifact(None, "data/test/random-0000.parquet", lambda d: read_split(d, "test")),
    "export": Artifact(lambda d: save_export(GPT(SIZES), d, {"steps": 3}), "meta.json", load_export),
    "weights": Artifact(lambda d: save_export(GPT(SIZES), d, {}), "model.safetensors", load_export),
    "results": Artifact(
        lambda d: store.write_parquet(d / "loss.parquet", "results", RESULTS, {"split": "test"}),
        "loss.parquet",
        lambda d: store.read_results(d / "loss.parquet", LOSS),
    ),
    "metrics": Artifact(
        lambda d: store.write_lines(d / "metrics.jsonl", "metrics", RESULTS.to_dicts()),
        "metrics.jsonl",
        lambda d: store.read_results(d / "metrics.jsonl", LOSS),
    ),
    "study": Artifact(
        lambda d: store.write_parquet(d / "study.parquet", "study", RESULTS, {"study": "{}"}),
        "study.parquet",
        lambda d: store.read_parquet(d / "study.parquet", "study", LOSS, Sealed),
    ),
}


def flip(place):
    def damage(path):
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 4
        path.write_bytes(data)

    return damage


DAMAGES = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "zeros": lambda path: path.write_bytes(bytes(1000)),
    "text": lambda path: path.write_text("{}"),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    **{f"a flipped bit at {place}": flip(place) for place in (0, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95, 1)},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory per kind of artifact, each with an intact one."""
    root = tmp_path_factory.mktemp("made")
    pipeline.sample(CONFIG, root / "dataset")
    pipeline.dataset(CONFIG, root / "dataset")
    for name, artifact in ARTIFACTS.items():
        if artifact.make:
            artifact.make(root / name)
    return root


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_damaged_file_is_one_line_with_its_name(made, tmp_path, name, damage):
    artifact = ARTIFACTS[name]
    source = made / (name if artifact.make else "dataset")
    directory = tmp_path / "made"
    shutil.copytree(source, directory)
    artifact.read(directory)
    path = directory / artifact.name
    if (name, damage) == ("export", "missing"):
        # Without meta.json it is a model saved by another program.
        path.with_name("config.json").unlink()
    DAMAGES[damage](path)
    with pytest.raises(InputError) as caught:
        artifact.read(directory)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rewritten_table_is_not_sealed(made, tmp_path):
    pl.read_parquet(made / "results/loss.parquet").write_parquet(tmp_path / "loss.parquet")
    with pytest.raises(InputError, match=r"loss\.parquet: not sealed, .* another program.*; evaluate again"):
        store.read_results(tmp_path / "loss.parquet", LOSS)


def test_a_file_of_another_kind_or_instruction_set_is_refused(made, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"study\.parquet: a file of kind study, not results"):
        store.read_results(made / "study/study.parquet", LOSS)
    monkeypatch.setattr(store.isa, "digest", lambda: "0123")
    with pytest.raises(InputError, match=r"meta\.json: of instruction set .*, this is 0123; train"):
        load_export(made / "export")


def test_a_seal_holds_the_origin_of_a_file(made, tmp_path):
    header = json.loads((made / "export/meta.json").read_text())["cadmus"]
    assert header["kind"] == "model"
    assert header["isa_digest"] == store.isa.digest()
    assert header["commit"] == store.commit()
    assert header["versions"].keys() == {"torch", "deepspeed", "numpy"}
    assert header["files"] == {"model.safetensors": store.digest_of(made / "export/model.safetensors")}
    assert json.loads(pl.read_parquet_metadata(made / "results/loss.parquet")["cadmus"])["kind"] == "results"
    # It is not written over what only looks like one.
    noted = {"split": f'"seal": "{"wax " * 20}"'}
    store.write_parquet(tmp_path / "a.parquet", "results", RESULTS, noted)
    assert pl.read_parquet_metadata(tmp_path / "a.parquet")["split"] == noted["split"]


@contextmanager
def no_space() -> Iterator[None]:
    """Limit files to 100 bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SHARD = Shard("random", "test", 0, 60, 0)
WRITERS = {
    "shard.parquet": lambda path: write(path, SHARD, sample(CONFIG.dataset, 1, *SHARD[:4]), CONFIG, {}),
    "numbers.parquet": lambda path: store.write_parquet(path, "results", pl.DataFrame({"x": range(100)}), {}),
    "figure.png": lambda path: style.save(Figure(), [path]),
    "table.md": lambda path: write_text(path, "text" * 100),
    "model": lambda path: save_export(GPT(SIZES), path, {}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_gives_one_line_and_leaves_no_file(tmp_path, name):
    WRITERS[name](tmp_path / "before" / name)
    with no_space(), pytest.raises(InputError, match=rf"^cannot write .*{name}: .*File too large") as caught:
        WRITERS[name](tmp_path / name)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["before"]


def test_a_file_in_place_of_a_directory_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for name in WRITERS:
        with pytest.raises(InputError, match=r"cannot write .*file/"):
            WRITERS[name](tmp_path / "file" / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_check_writable_finds_problems_and_creates_nothing(tmp_path):
    check_writable(tmp_path / "new" / "file")
    check_writable(tmp_path / "new", directory=True)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it is a directory"):
        check_writable(tmp_path)
    with pytest.raises(InputError, match="it is a file"):
        check_writable(tmp_path / "file", directory=True)
    with pytest.raises(InputError, match="Not a directory"):
        check_writable(tmp_path / "file" / "below")
    with no_space(), pytest.raises(InputError, match="File too large"):
        check_writable(tmp_path / "other")


@pytest.mark.parametrize("write", [check_writable, lambda path: replacing(path).__enter__()])
def test_links_and_pipes_are_refused_and_stay(tmp_path, write):
    target, link, loop, pipe = (tmp_path / name for name in ("target", "link", "loop", "pipe"))
    target.write_text("mine")
    link.symlink_to(target)
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    before = sorted(tmp_path.iterdir())
    problems = {link: f"a link; give its target, {target}", loop: "a link", pipe: "not a"}
    for path, problem in (*problems.items(), (Path("/dev/null"), "not a")):
        with pytest.raises(InputError, match=f"^cannot write {path}: it is {problem}"):
            write(path)
    assert sorted(tmp_path.iterdir()) == before
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert target.read_text() == "mine"


def test_files_of_a_set_are_written_together_or_not_at_all(tmp_path) -> None:
    (tmp_path / "a").write_text("old")

    def fail() -> None:
        with replacing_together() as replaced:
            for name in "ab":
                replaced(tmp_path / name).write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    with replacing_together() as replaced:
        for name in "ab":
            replaced(tmp_path / name).write_text("new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new", "new"]


def test_two_writers_of_a_file_do_not_disturb_each_other(tmp_path) -> None:
    path = tmp_path / "a"
    with replacing(path) as first:
        first.write_text("first")
        with replacing(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_removes_what_a_killed_one_left_and_nothing_else(tmp_path) -> None:
    left, other, notes = unfinished("a"), unfinished("b"), ".cadmus-partial-notes-a"
    elsewhere = left.replace(TEMPORARY, f"{TEMPORARY}elsewhere-")
    running = f"{TEMPORARY}{socket.gethostname()}-{os.getpid()}-99-a"
    for name in (left, other, notes, elsewhere, running):
        (tmp_path / name).touch()
    write_text(tmp_path / "a", "new")
    assert {path.name for path in tmp_path.iterdir()} == {"a", other, notes, elsewhere, running}


GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")


def commit_of(place: Path) -> str:
    """Return the commit that the package in ``place`` reports."""
    code = "from cadmus.store import commit; print(commit())"
    return python("-c", code, cwd=place, PYTHONPATH=str(place)).stdout.strip()


def commit_all(place: Path) -> str:
    """Make a Git repository of a directory and return its commit."""
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*GIT, *command], cwd=place, check=True)
    return subprocess.check_output([*GIT, "rev-parse", "HEAD"], cwd=place, text=True).strip()


@pytest.fixture
def package(tmp_path) -> Path:
    """A directory with the package alone."""
    place = tmp_path / "place"
    shutil.copytree(ROOT / "cadmus", place / "cadmus", ignore=shutil.ignore_patterns("__pycache__"))
    return place


def test_a_checkout_reports_its_commit(package) -> None:
    shutil.copy(ROOT / "pyproject.toml", package)
    made = commit_all(package)
    assert commit_of(package) == made
    (package / "cadmus/py.typed").write_text("changed")
    assert commit_of(package) == f"{made}-dirty"
    # Copied into the root of another project.
    (package / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    commit_all(package)
    assert commit_of(package) == VERSION
