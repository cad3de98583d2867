"""Files that cannot be written: a one-line error, and no partial file."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure

from cadmus.common.files import check_writable, replacing, replacing_together
from cadmus.config import Model, load_config
from cadmus.dataset import parquet
from cadmus.dataset.sampler import sample
from cadmus.dataset.shards import Shard
from cadmus.errors import InputError
from cadmus.evaluate.results import write_results
from cadmus.figures import style, tables
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT

CONFIG = load_config(Path(__file__).parents[1] / "tiny.yaml")
SIZES = Model(layers=1, width=64, heads=2, mlp=64)


@contextmanager
def no_space() -> Iterator[None]:
    """Limit files to 100 bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SHARD = Shard("random", "test", 0, 60)
WRITERS = {
    "shard.parquet": lambda path: parquet.write(path, SHARD, sample(CONFIG.dataset, 1, *SHARD), CONFIG, {}),
    "numbers.parquet": lambda path: write_results(pl.DataFrame({"x": range(100)}), path, {}),
    "figure.pdf": lambda path: style.save(Figure(), [path]),
    "figure.png": lambda path: style.save(Figure(), [path]),
    "table.md": lambda path: tables.save(*[pl.DataFrame({"x": ["text" * 100]})] * 2, [path]),
    "model": lambda path: save_export(GPT(SIZES), SIZES, path, {}),
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


def test_other_errors_are_not_reported_as_a_full_disk(tmp_path):
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file") as temporary:
        temporary.write_bytes(bytes(1 // 0))
    assert not list(tmp_path.iterdir())


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


def test_a_device_is_written_to_and_stays(tmp_path):
    # Like /dev/stdout, a link to a device; only root can make devices.
    device = tmp_path / "device.parquet"
    device.symlink_to("/dev/null")
    check_writable(device)
    write_results(pl.DataFrame({"x": range(100)}), device, {})
    assert device.is_char_device()
    assert list(tmp_path.iterdir()) == [device]
    expected = pytest.raises(InputError, match=r"^cannot write /dev/full: No space left")
    with expected, replacing("/dev/full") as full:
        full.write_text("x")


@pytest.mark.parametrize("write", [check_writable, lambda path: replacing(path).__enter__()])
def test_links_and_pipes_are_refused_and_stay(tmp_path, write):
    target, link, loop, pipe = (tmp_path / name for name in ("target", "link", "loop", "pipe"))
    target.write_text("mine")
    link.symlink_to(target)
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    before = sorted(tmp_path.iterdir())
    for path, problem in (
        (link, f"a link; give its target, {target}"),
        (loop, "a link"),
        (pipe, "not a"),
    ):
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
