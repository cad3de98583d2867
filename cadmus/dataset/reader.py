"""Reading a dataset."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from cadmus.dataset import parquet
from cadmus.dataset.manifest import file_digest, read_manifest
from cadmus.errors import InputError
from cadmus.programs import Samples


def read_split(
    directory: Path | str,
    split: str,
    templates: Collection[str] | None = None,
    columns: Collection[str] = ("template", "x", "y"),
) -> Samples:
    """Read a split into memory, in the order of the manifest; arguments as for :func:`stream_split`."""
    return Samples.concat([*stream_split(directory, split, templates, columns)])


def stream_split(
    directory: Path | str,
    split: str,
    templates: Collection[str] | None = None,
    columns: Collection[str] = (),
) -> Iterator[Samples]:
    """Read a split shard by shard, in the order of the manifest.

    Args:
        directory: the dataset.
        split: one that it has.
        templates: those to read; all if None.
        columns: any of template, x and y, to read besides the programs and their prompt lengths.

    Raises:
        InputError: the dataset or a shard is missing, truncated, of another instruction set, or changed since
            the manifest was written; or it has no such programs.
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
        table = read_file(directory, file, ["program", "prompt_length", *columns])
        yield Samples.from_arrow(table)
        del table
    # Otherwise Arrow keeps the memory that it decoded into.
    pa.default_memory_pool().release_unused()


def read_file(directory: Path, file: dict[str, Any], columns: list[str]) -> pa.Table:
    """Return some columns of a shard that the manifest describes as ``file``.

    Raises:
        InputError: the shard is missing, truncated, or changed since the manifest was written.
    """
    path = directory / file["file"]
    table = parquet.read(path, columns)
    if file_digest(path) != file["sha256"]:
        raise InputError(f"{path}: changed since the manifest was written; write the manifest again")
    return table
