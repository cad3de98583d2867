"""Statistics of a finished dataset, counted shard by shard to hold only one shard in memory."""

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from cadmus import isa
from cadmus.dataset.manifest import read_file, read_manifest
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


class Survey(NamedTuple):
    """Statistics of a dataset."""

    manifest: dict[str, Any]
    size: int
    """Bytes of all shards."""
    counts: pl.DataFrame
    """Columns split, template, programs, distinct, sampled, duplicates_kept and the :data:`FATES`."""
    lengths: pl.DataFrame
    """Columns split, template, length, programs."""
    values: pl.DataFrame
    """Columns split, template, variable (x or y), value, programs."""
    instructions: pl.DataFrame
    """Columns template, symbol, count and share over the training programs, of unused instructions too."""
    examples: dict[str, list[Example]]


def survey(directory: Path | str) -> Survey:
    """Read every shard of a dataset once."""
    directory = Path(directory)
    manifest = read_manifest(directory)
    lengths = defaultdict[tuple[str, ...], Any](int)
    values, symbols = lengths.copy(), lengths.copy()
    examples: dict[str, list[Example]] = {}
    for file in progress("read", manifest["files"], unit="shard"):
        split, template = file["split"], file["template"]
        table = read_file(directory, file, ["program", "prompt_length", "x", "y"])
        programs = Programs.from_arrow(table["program"])
        lengths[split, template] += np.bincount(programs.lengths, minlength=256)
        for variable in ("x", "y"):
            column = table[variable].drop_null().to_numpy().astype(np.int64)
            values[split, template, variable] += np.bincount(column + _INT16, minlength=2 * _INT16)
        if split == "train":
            symbols[template,] += np.bincount(programs.data, minlength=256)
            examples.setdefault(template, _examples(table))
    counts = [
        # The manifest has no OOD counts without OOD rules.
        {"split": split, "template": template, "ood": 0, **of_template}
        for split, templates in manifest["splits"].items()
        for template, of_template in templates.items()
    ]
    used = [
        (template, symbol, int(histogram[ord(symbol)]))
        for (template,), histogram in symbols.items()
        for symbol in isa.BY_SYMBOL
        if symbol != isa.END
    ]
    share = pl.col("count") / pl.col("count").sum().over("template")
    return Survey(
        manifest,
        sum((directory / file["file"]).stat().st_size for file in manifest["files"]),
        pl.DataFrame(counts).select(
            "split", "template", "programs", "distinct", "sampled", "duplicates_kept", *FATES
        ),
        _frame(lengths, ("split", "template"), "length"),
        _frame(values, ("split", "template", "variable"), "value", -_INT16),
        pl.DataFrame(used, ["template", "symbol", "count"], orient="row").with_columns(share=share),
        examples,
    )


def _examples(table: pa.Table) -> list[Example]:
    rows = table.slice(0, EXAMPLES).select(["program", "prompt_length", "x", "y"]).to_pydict().values()
    return [
        Example(text[:at], text[at:], reference.run(text).true, x, y)
        for text, at, x, y in zip(*rows, strict=True)
    ]


def _frame(
    histograms: dict[tuple[str, ...], np.ndarray], keys: tuple[str, ...], name: str, first: int = 0
) -> pl.DataFrame:
    """Return one row per number that occurs; index i of a histogram counts the number ``first + i``."""
    rows = [
        (*key, int(index) + first, int(histogram[index]))
        for key, histogram in histograms.items()
        for index in np.flatnonzero(histogram)
    ]
    schema = {**dict.fromkeys(keys, pl.String), name: pl.Int64, "programs": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")
