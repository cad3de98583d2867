"""What a finished dataset holds, counted shard by shard, so that the memory for 80 million programs is that
for one shard."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from cadmus import isa
from cadmus.common.progress import progress
from cadmus.dataset import parquet
from cadmus.dataset.manifest import read_manifest
from cadmus.programs import Programs
from cadmus.vm import reference

EXAMPLES = 3
"""Programs shown of each template: the first ones of its first training shard."""
FATES = ("kept", "surplus", "duplicates", "ood", "other_split", "rejected", "too_long", "unfit")
"""What becomes of a candidate, the best first; fields of :class:`cadmus.dataset.sampler.Counts`."""

_INT16 = 1 << 15


class Example(NamedTuple):
    """A program, cut where a model takes over, what the machine says of it, and what it compares."""

    prompt: str
    completion: str
    verdict: bool
    x: int | None
    y: int | None


@dataclass(frozen=True)
class Survey:
    """A dataset in numbers.

    Attributes:
        manifest: as :func:`cadmus.dataset.manifest.read_manifest` gives it.
        size: bytes of all shards.
        counts: split, template, programs, distinct, sampled, duplicates_kept and the ``FATES``.
        lengths: split, template, length, programs.
        values: split, template, variable (x or y), value, programs.
        instructions: split, template, symbol, count; every instruction but the end, also those with count 0.
        examples: by template.
    """

    manifest: dict[str, Any]
    size: int
    counts: pl.DataFrame
    lengths: pl.DataFrame
    values: pl.DataFrame
    instructions: pl.DataFrame
    examples: dict[str, list[Example]]


def survey(directory: Path | str) -> Survey:
    """Read every shard of a dataset once.

    Raises:
        InputError: the dataset or a shard of it is missing, truncated, or of another instruction set.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    zeros = defaultdict[tuple[str, ...], Any](int)
    lengths, values, symbols = zeros.copy(), zeros.copy(), zeros.copy()
    examples: dict[str, list[Example]] = {}
    size = 0
    for file in progress("read", manifest["files"], unit="shard"):
        path, place = directory / file["file"], (file["split"], file["template"])
        table = parquet.read(path, ["program", "prompt_length", "x", "y"])
        programs = Programs.from_arrow(table["program"])
        lengths[place] += np.bincount(programs.lengths, minlength=256)
        symbols[place] += np.bincount(programs.data, minlength=256)
        for variable in ("x", "y"):
            column = table[variable].drop_null().to_numpy().astype(np.int64)
            values[*place, variable] += np.bincount(column + _INT16, minlength=2 * _INT16)
        if file["split"] == "train":
            examples.setdefault(file["template"], _examples(table))
        size += path.stat().st_size
    return Survey(
        manifest,
        size,
        _counts(manifest),
        _frame(lengths, ("split", "template"), "length", "programs"),
        _frame(values, ("split", "template", "variable"), "value", "programs", -_INT16),
        _instructions(symbols),
        examples,
    )


def _examples(table: pa.Table) -> list[Example]:
    rows = table.slice(0, EXAMPLES).select(["program", "prompt_length", "x", "y"]).to_pydict().values()
    return [
        Example(text[:at], text[at:], reference.run(text).true, x, y)
        for text, at, x, y in zip(*rows, strict=True)
    ]


def _counts(manifest: dict[str, Any]) -> pl.DataFrame:
    rows = [
        {"split": split, "template": template, **counts}
        for split, templates in manifest["splits"].items()
        for template, counts in templates.items()
    ]
    columns = ("programs", "distinct", "sampled", "duplicates_kept", *FATES)
    # Without rules nothing is noted about them.
    return pl.DataFrame([{"ood": 0, **row} for row in rows]).select("split", "template", *columns)


def _frame(
    counted: dict[tuple[str, ...], np.ndarray], keys: tuple[str, ...], name: str, count: str, first: int = 0
) -> pl.DataFrame:
    """One row for each number that occurs; place i of a histogram stands for the number ``first + i``."""
    schema = {**dict.fromkeys(keys, pl.String), name: pl.Int64, count: pl.Int64}
    rows = [
        (*place, int(index) + first, int(histogram[index]))
        for place, histogram in counted.items()
        for index in np.flatnonzero(histogram)
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _instructions(counted: dict[tuple[str, ...], np.ndarray]) -> pl.DataFrame:
    symbols = [row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END]
    rows = [
        (*place, symbol, int(histogram[ord(symbol)]))
        for place, histogram in counted.items()
        for symbol in symbols
    ]
    schema = {"split": pl.String, "template": pl.String, "symbol": pl.String, "count": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
