"""The Parquet file of a shard: its columns, its metadata, and reading it with clear errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cadmus import isa
from cadmus.common.files import replacing
from cadmus.config import OOD, Config
from cadmus.dataset.sampler import Sample
from cadmus.dataset.shards import Shard
from cadmus.errors import InputError

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
"""One row per program; ``program`` is written without its end ``.``."""

METADATA_KEY = b"cadmus"


def write(path: Path, shard: Shard, sample: Sample, config: Config) -> None:
    """Write a shard; the file appears whole or not at all.

    Raises:
        InputError: there is no space or no permission.
    """
    n = len(sample.programs)
    counts = asdict(sample.counts)
    if config.dataset.ood:
        rules = {"ood": sample.matched}
    else:
        # A dataset without rules has the bytes that it had before there were any.
        rules = {}
        del counts["ood"]
    metadata = {
        "template": shard.template,
        "split": shard.split,
        "shard": shard.number,
        "seed": config.seed,
        "isa_digest": isa.digest(),
        "isa_limits": isa.LIMITS,
        "config_digest": config.dataset_digest(),
        "counts": counts,
        **rules,
    }
    table = pa.table(
        [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([shard.template])),
            sample.programs.to_arrow(),
            pa.array(sample.prompt_length, pa.uint8()),
            pa.nulls(n, pa.int16()) if sample.x is None else pa.array(sample.x, pa.int16()),
            pa.nulls(n, pa.int16()) if sample.y is None else pa.array(sample.y, pa.int16()),
            pa.array(np.full(n, shard.number, np.int32)),
        ],
        schema=SCHEMA.with_metadata({METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()}),
    )
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_metadata(path: Path) -> dict[str, Any]:
    """What :func:`write` noted about a shard, and the number of ``rows``.

    Raises:
        InputError: the file is missing, truncated or no shard.
    """
    with _shard(path) as file:
        return {**json.loads(file.metadata.metadata[METADATA_KEY]), "rows": file.metadata.num_rows}


def read_shard(
    directory: Path, shard: Shard, config: Config, columns: list[str]
) -> tuple[dict[str, Any], pa.Table]:
    """The metadata and the rows of a shard of the dataset in ``directory`` that ``config`` describes.

    Raises:
        InputError: the file is missing, truncated, another shard, or of another instruction set or config.
    """
    path = directory / shard.path
    noted = read_metadata(path)
    expected = {
        "isa_digest": isa.digest(),
        "config_digest": config.dataset_digest(),
        "template": shard.template,
        "split": shard.split,
        "shard": shard.number,
    }
    if shard.split != OOD:
        # Rules may match fewer programs than are wanted.
        expected["rows"] = shard.rows
    for key, ours in expected.items():
        if noted[key] != ours:
            raise InputError(
                f"{path}: the shard has the {key} {noted[key]}, here belongs {ours}; delete it and sample it "
                "again"
            )
    return noted, read(path, columns)


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """The rows of a shard.

    Raises:
        InputError: the file is missing, truncated or no shard.
    """
    with _shard(path) as file:
        return file.read(columns)


@contextmanager
def _shard(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            if METADATA_KEY not in (file.metadata.metadata or {}) or not file.schema_arrow.equals(SCHEMA):
                raise InputError(
                    f"{path}: not a shard of Cadmus (no metadata or other columns); delete it and sample it "
                    "again"
                )
            yield file
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: no such file; sample the dataset first (`make run` or `snakemake`)")
    reason = str(error).splitlines()[0]
    return InputError(
        f"{path}: not a readable Parquet file, perhaps truncated ({reason}); delete it and sample it again"
    )
