"""Reading a dataset."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cadmus.dataset.manifest import read_manifest
from cadmus.errors import InputError
from cadmus.programs import Samples
from cadmus.store import check_digest


def read_split(
    directory: Path | str,
    split: str,
    templates: Collection[str] | None = None,
    columns: Collection[str] = ("template", "x", "y"),
) -> Samples:
    """Read a split into memory, as :func:`stream_split` yields it."""
    return Samples.concat([*stream_split(directory, split, templates, columns)])


def stream_split(
    directory: Path | str,
    split: str,
    templates: Collection[str] | None = None,
    columns: Collection[str] = (),
) -> Iterator[Samples]:
    """Read a split shard by shard, in the order of the manifest; of some templates, or all if None.

    ``columns`` are any of template, x and y, besides the programs and their prompt lengths.
    """
    directory = Path(directory)
    files = [
        file
        for file in read_manifest(directory)["files"]
        if file["split"] == split and (templates is None or file["template"] in templates)
    ]
    if not files:
        of = f" of {', '.join(templates)}" if templates else ""
        raise InputError(f"{directory}: the dataset has no {split} programs{of}")
    for file in files:
        yield Samples.from_arrow(read_file(directory, file, ["program", "prompt_length", *columns]))
    # Otherwise Arrow keeps the memory that it decoded into.
    pa.default_memory_pool().release_unused()


def read_file(directory: Path, file: dict[str, Any], columns: list[str]) -> pa.Table:
    """Return some columns of a shard that the manifest describes as ``file``."""
    path = directory / file["file"]
    check_digest(path, file["sha256"], "dataset")
    with pq.ParquetFile(path) as opened:
        return opened.read(columns)
