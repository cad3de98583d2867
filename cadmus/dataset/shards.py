"""The shards of a dataset: which there are, and their Parquet files.

The bytes of a shard depend on the config alone: its random stream is named by seed, template, split and
number, and its file holds nothing of the time or the machine. So shards can be written in any order and
place, and the SHA-256 of a file, in the manifest, is its seal.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from cadmus import isa
from cadmus.config import OOD, TEMPLATES, Config, validate
from cadmus.config.dataset import COMPARING
from cadmus.config.fields import Count
from cadmus.errors import InputError, reading
from cadmus.programs import Programs, Samples
from cadmus.records import Record
from cadmus.store import replacing

FOLDER = "data"
"""Folder of the shards in the directory of a dataset. It has no other files, which many readers refuse."""
SCHEMA = pa.schema(
    [
        pa.field("split", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("template", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("program", pa.string(), nullable=False),
        pa.field("prompt_length", pa.uint8(), nullable=False),
        pa.field("x", pa.int16()),
        pa.field("y", pa.int16()),
    ]
)
"""One row per program; split, template and number are the key; ``program`` has no end ``.``."""
METADATA_KEY = b"cadmus"
_FIX = "delete it and sample it again"
ROW_GROUP = 100_000
"""Rows that a reader decodes at once. The viewer of the Hugging Face Hub needs small row groups."""


class Metadata(Record):
    """Metadata in the file of a shard."""

    template: str
    split: str
    shard: int
    isa_digest: str
    config_digest: str
    counts: dict[str, Count]
    """Candidates by outcome, see :class:`cadmus.dataset.sampler.Counts`."""
    ood: dict[str, Count] = Field({})
    """By OOD rule, how many candidates matched it."""


class Shard(NamedTuple):
    """One file of a dataset: ``data/<split>/<template>-<number>.parquet``."""

    template: str
    split: str
    number: int
    rows: int
    start: int
    """Number of its first program."""

    @property
    def path(self) -> str:
        """The file, relative to the directory of the dataset."""
        return f"{FOLDER}/{self.split}/{self.template}-{self.number:04d}.parquet"


def list_shards(config: Config) -> list[Shard]:
    """List the shards of a dataset in reading order.

    A template without training programs has no shards; one without OOD rules has none in the split ood.
    """
    shards = []
    dataset = config.dataset
    for split in dataset.splits:
        for template in TEMPLATES:
            rows = train = getattr(dataset.templates, template).train
            if split == OOD:
                rows = dataset.ood_programs if train and dataset.rules_for(template) else 0
            elif split != "train":
                rows = getattr(dataset, split) if train else 0
            number = math.ceil(rows / dataset.shard_size)
            # Equal sizes, so that parallel jobs end together.
            for index in range(number):
                start, end = rows * index // number, rows * (index + 1) // number
                shards.append(Shard(template, split, index, end - start, start))
    return shards


def write_shard(config: Config, directory: Path, template: str, split: str, number: int) -> Path:
    """Sample and write one shard of the dataset in ``directory``; return its file.

    The shards of the template and split with lower numbers must exist: their programs count as duplicates.
    """
    # They import numba, which lists of shards do without, as in `cadmus plan` and Snakemake.
    from cadmus.dataset.sampler import Sampler
    from cadmus.dataset.splits import hashes

    sampler = Sampler(config.dataset, config.seed, template, split, number)
    shards = [shard for shard in list_shards(config) if shard[:2] == (template, split)]
    if number >= len(shards):
        raise InputError(f"config {config.name!r}: no shard {number} of {template} for {split}")
    tables = [read_shard(directory, shard, config, ["program"])[1] for shard in shards[:number]]
    earlier = [hashes(Programs.from_arrow(table["program"])) for table in tables]
    samples = sampler.sample(shards[number].rows, earlier)
    path = directory / shards[number].path
    write(path, shards[number], samples, config, sampler.summary())
    return path


def write(path: Path, shard: Shard, samples: Samples, config: Config, summary: dict[str, Any]) -> None:
    """Write the programs of a shard, with ``summary`` in its metadata."""
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
    constants = [Programs.from_strings([text]).to_arrow() for text in (shard.split, shard.template)]
    first = _to_arrow(np.zeros(n, np.int8))
    table = pa.table(
        [
            *(pa.DictionaryArray.from_arrays(first, text.cast(pa.string())) for text in constants),
            _to_arrow(np.arange(shard.start, shard.start + n)),
            samples.programs.to_arrow().cast(pa.string()),
            _to_arrow(samples.prompt_length),
            *(pa.nulls(n, pa.int16()) if v is None else _to_arrow(v) for v in (samples.x, samples.y)),
        ],
        schema=SCHEMA.with_metadata({METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()}),
    )
    # Numbers take no space as differences.
    encodings = {
        "use_dictionary": [name for name in SCHEMA.names if name != "number"],
        "column_encoding": {"number": "DELTA_BINARY_PACKED"},
    }
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP, **encodings)


def _to_arrow(values: np.ndarray) -> pa.Array:
    """Convert integers; in place of pa.array, which imports pandas."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def read_shard(
    directory: Path, shard: Shard, config: Config, columns: list[str] | None = None
) -> tuple[Metadata, pa.Table]:
    """Read a shard that no manifest seals yet: its metadata, some columns or all."""
    path = directory / shard.path
    with reading(path, _FIX), pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(SCHEMA):
            raise ValueError("other columns than a shard's")
        rows, values = file.metadata.num_rows, json.loads(file.metadata.metadata[METADATA_KEY])
    metadata = validate(values, Metadata, str(path), _FIX)
    for name, found, wanted in (
        ("instruction set", metadata.isa_digest, isa.digest()),
        ("seed or section dataset", metadata.config_digest, config.dataset_digest()),
        ("template", metadata.template, shard.template),
        ("split", metadata.split, shard.split),
        ("number", metadata.shard, shard.number),
        # OOD rules may match fewer programs than wanted.
        ("number of programs", rows, min(rows, shard.rows) if shard.split == OOD else shard.rows),
        ("list of OOD rules", sorted(metadata.ood), sorted(config.dataset.rules_for(shard.template))),
    ):
        if found != wanted:
            problem = f"sampled with another {name} ({found}, the config has {wanted})"
            raise InputError(f"{path}: {problem}; {_FIX}")
    with reading(path, _FIX), pq.ParquetFile(path) as file:
        table = file.read(columns)
        check_columns(table, shard.split, shard.template)
    return metadata, table


def check_columns(table: pa.Table, split: str, template: str) -> None:
    """Check columns of a shard, as far as they were read: the constant ones, and x and y.

    These two are null in all rows or none.
    """
    for name, wanted in {"split": split, "template": template}.items():
        if name in table.column_names and table[name].unique().to_pylist() not in ([], [wanted]):
            raise ValueError(f"{name}: must be {wanted} in all rows")
    for name in {"x", "y"}.intersection(table.column_names):
        nulls = (0,) if template in COMPARING else (0, len(table))
        if table[name].null_count not in nulls:
            raise ValueError(f"{name}: must be null in {' or '.join(map(str, nulls))} rows")
