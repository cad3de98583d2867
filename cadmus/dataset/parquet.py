"""The Parquet file of a shard: columns, metadata and reading."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cadmus import isa
from cadmus.common.files import replacing
from cadmus.config import OOD, Config
from cadmus.dataset.shards import Shard
from cadmus.errors import InputError
from cadmus.programs import Samples

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
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([shard.template])),
            samples.programs.to_arrow(),
            pa.array(samples.prompt_length),
            *(
                pa.nulls(n, pa.int16()) if column is None else pa.array(column)
                for column in (samples.x, samples.y)
            ),
            pa.array(np.full(n, shard.number, np.int32)),
        ],
        schema=SCHEMA.with_metadata({METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()}),
    )
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP)


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return some columns of a shard, or all.

    Raises:
        InputError: the file is missing, truncated or not a shard.
    """
    with _open(path) as file:
        return file.read(columns)


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
        "config_digest": config.dataset_digest(),
        "template": shard.template,
        "split": shard.split,
        "shard": shard.number,
    }
    if shard.split != OOD:
        # OOD rules may match fewer programs than wanted.
        expected["rows"] = shard.rows
    with _open(path) as file:
        metadata = {**json.loads(file.metadata.metadata[METADATA_KEY]), "rows": file.metadata.num_rows}
        for key, value in expected.items():
            if metadata[key] != value:
                raise InputError(
                    f"{path}: {key}: expected {value}, got {metadata[key]}; delete it and sample it again"
                )
        return metadata, file.read(columns)


@contextmanager
def _open(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            if METADATA_KEY not in (file.metadata.metadata or {}) or not file.schema_arrow.equals(SCHEMA):
                raise InputError(
                    f"{path}: not a Cadmus shard (metadata or columns differ); delete it and sample it again"
                )
            yield file
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; sample the dataset first (`make run` or `snakemake`)"
        ) from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{path}: not a readable Parquet file, perhaps truncated ({reason}); delete it and sample again"
        ) from None
