"""The Parquet file of a shard: columns, metadata and reading."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import TypedDict

from cadmus import isa
from cadmus.common.files import replacing
from cadmus.config import OOD, Config, parse_json
from cadmus.config.fields import CLOSED, STRICT, Tally
from cadmus.dataset.shards import Shard
from cadmus.errors import InputError, reading
from cadmus.programs import Programs, Samples

SCHEMA = pa.schema(
    [
        pa.field("template", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("program", pa.string(), nullable=False),
        pa.field("prompt_length", pa.uint8(), nullable=False),
        pa.field("x", pa.int16()),
        pa.field("y", pa.int16()),
        pa.field("shard", pa.int32(), nullable=False),
    ]
)
"""One row per program; ``program`` has no end ``.``."""

METADATA_KEY = b"cadmus"
ROW_GROUP = 100_000
"""Rows that a reader decodes at once. The viewer of the Hugging Face Hub needs small row groups."""
_FIX = "delete it and sample it again"
_IS_INSTRUCTION = np.zeros(256, np.bool_)
_IS_INSTRUCTION[[ord(symbol) for symbol in isa.BY_SYMBOL if symbol != isa.END]] = True


class Outcomes(TypedDict):
    """Outcome counts of the candidates of a shard; see :class:`cadmus.dataset.sampler.Counts`."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]

    sampled: Tally
    unfit: Tally
    too_long: Tally
    other_split: Tally
    rejected: Tally
    ood: NotRequired[Tally]
    duplicates: Tally
    duplicates_kept: Tally
    surplus: Tally
    kept: Tally


class Metadata(TypedDict):
    """Metadata of a shard."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    template: str
    split: str
    shard: Tally
    isa_digest: str
    config_digest: str
    counts: Outcomes
    ood: NotRequired[dict[str, Tally]]


def write(path: Path, shard: Shard, samples: Samples, config: Config, summary: dict[str, Any]) -> None:
    """Write a shard atomically, with ``summary`` in its metadata.

    Raises:
        InputError: no space or no permission.
    """
    n = len(samples)
    metadata = {
        "template": shard.template,
        "split": shard.split,
        "shard": shard.number,
        "seed": config.seed,
        "isa_digest": isa.digest(),
        "isa_limits": isa.LIMITS,
        "config_digest": config.dataset_digest(),
        **summary,
    }
    table = pa.table(
        [
            pa.DictionaryArray.from_arrays(_to_arrow(np.zeros(n, np.int8)), _one_text(shard.template)),
            samples.programs.to_arrow(),
            _to_arrow(samples.prompt_length),
            *(
                pa.nulls(n, pa.int16()) if column is None else _to_arrow(column)
                for column in (samples.x, samples.y)
            ),
            _to_arrow(np.full(n, shard.number, np.int32)),
        ],
        schema=SCHEMA.with_metadata({METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()}),
    )
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP)


# In place of pa.array, which imports pandas: 0.3 s of each shard's job.
def _to_arrow(values: np.ndarray) -> pa.Array:
    """Convert an array of integers."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _one_text(text: str) -> pa.Array:
    """Return an array of one string."""
    offsets = np.array([0, len(text)], np.int32)
    return pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(text.encode()))


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return some columns of a shard, or all.

    Raises:
        InputError: the file is missing, truncated or not a shard.
    """
    with _open(path) as file:
        return _checked(path, file, columns)


def read_shard(
    directory: Path, shard: Shard, config: Config, columns: list[str]
) -> tuple[dict[str, Any], pa.Table]:
    """Return the metadata, with the number of ``rows``, and some columns of a shard of this dataset.

    Raises:
        InputError: the file is missing, truncated, another shard, or of another instruction set or config.
    """
    path = directory / shard.path
    expected = {
        "isa_digest": isa.digest(),
        "template": shard.template,
        "split": shard.split,
        "shard": shard.number,
    }
    if shard.split != OOD:
        # OOD rules may match fewer programs than wanted.
        expected["rows"] = shard.rows
    with _open(path) as file:
        found = parse_json(file.metadata.metadata[METADATA_KEY], Metadata, str(path), _FIX)
        metadata = {**found, "rows": file.metadata.num_rows}
        if metadata["config_digest"] != config.dataset_digest():
            raise InputError(
                f"{path}: sampled with another seed or section dataset than the config says; {_FIX}"
            )
        for key, value in expected.items():
            if metadata[key] != value:
                raise InputError(f"{path}: {key}: expected {value}, got {metadata[key]}; {_FIX}")
        return metadata, _checked(path, file, columns)


def _checked(path: Path, file: pq.ParquetFile, columns: list[str] | None) -> pa.Table:
    """Read columns of a shard and check what other code relies on.

    Raises:
        InputError: a program has a character that is not an instruction, a prompt is empty or longer than its
            program, or only some programs have compared values.
    """
    table = file.read(columns)
    if {"program", "prompt_length"} <= set(table.column_names):
        programs, prompts = Programs.from_arrow(table["program"]), table["prompt_length"].to_numpy()
        if not _IS_INSTRUCTION[programs.data].all():
            raise InputError(f"{path}: program: has characters that are not instructions; {_FIX}")
        if ((prompts < 1) | (prompts > programs.lengths)).any():
            raise InputError(f"{path}: prompt_length: must be 1 to the length of the program; {_FIX}")
    nulls = {table[name].null_count for name in ("x", "y") if name in table.column_names}
    if len(nulls) > 1 or not nulls <= {0, len(table)}:
        raise InputError(f"{path}: x, y: missing for some of the programs; {_FIX}")
    return table


@contextmanager
def _open(path: Path) -> Iterator[pq.ParquetFile]:
    if not path.exists():
        raise InputError(f"{path}: no such file; sample the dataset first (`make run` or `snakemake`)")
    with reading(path, f"perhaps truncated; {_FIX}"), pq.ParquetFile(path) as file:
        if METADATA_KEY not in (file.metadata.metadata or {}) or not file.schema_arrow.equals(SCHEMA):
            raise InputError(f"{path}: not a Cadmus shard (metadata or columns differ); {_FIX}")
        yield file
