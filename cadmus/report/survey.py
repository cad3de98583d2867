"""Statistics of a finished dataset, counted shard by shard to hold only one shard in memory."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from cadmus import isa
from cadmus.config import Dataset, validate
from cadmus.dataset.manifest import NAME, read_manifest
from cadmus.dataset.reader import read_file
from cadmus.programs import Programs
from cadmus.tools import progress
from cadmus.vm import reference

EXAMPLES = 3
"""Programs shown per template: the first ones of its first training shard."""
FATES = {
    "kept": "kept",
    "surplus": "surplus",
    "duplicates": "duplicates, removed",
    "ood": "excluded by an OOD rule",
    "rejected": "not true",
    "other_split": "in another split",
    "too_long": "too long",
    "unfit": "incomplete",
}
"""Titles of the fates of a candidate, the best first; fields of :class:`cadmus.dataset.sampler.Counts`."""

_INT16 = 1 << 15


class Example(NamedTuple):
    """A program as prompt and completion, the VM's verdict and the compared values."""

    prompt: str
    completion: str
    verdict: bool
    x: int | None
    y: int | None


@dataclass(frozen=True)
class Survey:
    """Statistics of a dataset.

    Attributes:
        manifest: the dataset's manifest.
        size: bytes of all shards.
        counts: columns split, template, programs, distinct, sampled, duplicates_kept and the ``FATES``.
        lengths: columns split, template, length, programs.
        values: columns split, template, variable (x or y), value, programs.
        instructions: columns split, template, symbol, count; every instruction but the end, even unused ones.
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
        InputError: the dataset or a shard is missing, truncated, from another instruction set or changed.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    dataset = validate(manifest["dataset"], Dataset, f"{directory / NAME}: dataset", "write it again")
    manifest["dataset"] = dataset.model_dump()
    zeros = defaultdict[tuple[str, ...], Any](int)
    lengths, values, symbols = zeros.copy(), zeros.copy(), zeros.copy()
    examples: dict[str, list[Example]] = {}
    size = 0
    for file in progress("read", manifest["files"], unit="shard"):
        path, key = directory / file["file"], (file["split"], file["template"])
        table = read_file(directory, file, ["program", "prompt_length", "x", "y"])
        programs = Programs.from_arrow(table["program"])
        lengths[key] += np.bincount(programs.lengths, minlength=256)
        symbols[key] += np.bincount(programs.data, minlength=256)
        for variable in ("x", "y"):
            column = table[variable].drop_null().to_numpy().astype(np.int64)
            values[*key, variable] += np.bincount(column + _INT16, minlength=2 * _INT16)
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
    # The manifest has no OOD counts without OOD rules.
    return pl.DataFrame([{"ood": 0, **row} for row in rows]).select("split", "template", *columns)


def _frame(
    counted: dict[tuple[str, ...], np.ndarray], keys: tuple[str, ...], name: str, count: str, first: int = 0
) -> pl.DataFrame:
    """Return one row per number that occurs; index i of a histogram counts the number ``first + i``."""
    schema = {**dict.fromkeys(keys, pl.String), name: pl.Int64, count: pl.Int64}
    rows = [
        (*key, int(index) + first, int(histogram[index]))
        for key, histogram in counted.items()
        for index in np.flatnonzero(histogram)
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _instructions(counted: dict[tuple[str, ...], np.ndarray]) -> pl.DataFrame:
    rows = [
        (*key, symbol, int(histogram[ord(symbol)]))
        for key, histogram in counted.items()
        for symbol in isa.BY_SYMBOL
        if symbol != isa.END
    ]
    schema = {"split": pl.String, "template": pl.String, "symbol": pl.String, "count": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
