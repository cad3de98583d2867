"""Reading a dataset."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cadmus.dataset import parquet
from cadmus.dataset.manifest import file_digest, read_manifest
from cadmus.errors import InputError
from cadmus.programs import Programs


@dataclass(frozen=True)
class Table:
    """The programs of a split.

    Attributes:
        programs: n programs, without their ends.
        template: the name of the template of each, shape (n,), dtype object.
        prompt_length: int64, shape (n,), instructions that a model is given.
        x, y: float64, shape (n,), the compared values, NaN where a template has none.
    """

    programs: Programs
    template: np.ndarray
    prompt_length: np.ndarray
    x: np.ndarray
    y: np.ndarray


def read_split(directory: Path | str, split: str, templates: list[str] | None = None) -> Table:
    """Read a split in the order of the manifest, all templates or some.

    Raises:
        InputError: the dataset or a shard of it is missing, truncated, of another instruction set, or not
            what the manifest describes.
    """
    directory = Path(directory)
    files = _files(directory, split, templates)
    table = pa.concat_tables([_read(directory, file) for file in files]).unify_dictionaries()
    return Table(
        programs=Programs.from_arrow(table["program"]),
        template=table["template"].to_numpy(),
        prompt_length=table["prompt_length"].to_numpy().astype(np.int64),
        x=pc.cast(table["x"], pa.float64()).to_numpy(),
        y=pc.cast(table["y"], pa.float64()).to_numpy(),
    )


def stream_split(directory: Path | str, split: str) -> Iterator[tuple[Programs, np.ndarray]]:
    """Read the programs of a split shard by shard, in the order of the manifest.

    Yields:
        The programs of a shard and their prompt lengths: uint8, one for each program.

    Raises:
        InputError: as :func:`read_split`.
    """
    directory = Path(directory)
    for file in _files(directory, split):
        table = _read(directory, file, ["program", "prompt_length"])
        yield Programs.from_arrow(table["program"]), table["prompt_length"].to_numpy()
        del table
    # Arrow keeps what it has decoded into.
    pa.default_memory_pool().release_unused()


def _files(directory: Path, split: str, templates: list[str] | None = None) -> list[dict[str, Any]]:
    files = [
        file
        for file in read_manifest(directory)["files"]
        if file["split"] == split and (templates is None or file["template"] in templates)
    ]
    if not files:
        wanted = f" of {', '.join(templates)}" if templates else ""
        raise InputError(f"{directory}: the dataset has no {split} programs{wanted}")
    return files


def _read(directory: Path, file: dict[str, Any], columns: list[str] | None = None) -> pa.Table:
    path = directory / file["file"]
    table = parquet.read(path, columns)
    if file_digest(path) != file["sha256"]:
        raise InputError(f"{path}: changed since the manifest was written; write the manifest again")
    return table
