"""Statistics of a finished dataset, counted shard by shard to hold only one shard in memory."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.dataset.manifest import read_manifest
from cadmus.dataset.reader import read_file
from cadmus.programs import Programs
from cadmus.tools import progress

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
    examples: dict[str, list[dict[str, Any]]]
    """Rows by template, with the columns program, prompt_length, x and y."""


def survey(directory: Path | str) -> Survey:
    """Read every shard of a dataset once."""
    directory = Path(directory)
    manifest = read_manifest(directory)
    lengths, values = list[pl.DataFrame](), list[pl.DataFrame]()
    symbols, examples = dict[str, np.ndarray](), dict[str, list[dict[str, Any]]]()
    for file in progress("read", manifest["files"], unit="shard"):
        split, template = file["split"], file["template"]
        table = read_file(directory, file, ["program", "prompt_length", "x", "y"])
        rows = pl.DataFrame(table)
        place = {"split": pl.lit(split), "template": pl.lit(template)}
        lengths.append(_counted("length", rows["program"].str.len_bytes()).with_columns(**place))
        for name in ("x", "y"):
            found = _counted("value", rows[name].drop_nulls())
            values.append(found.with_columns(**place, variable=pl.lit(name)))
        if split == "train":
            data = Programs.from_arrow(table["program"]).data
            symbols[template] = symbols.get(template, 0) + np.bincount(data, minlength=256)
            examples.setdefault(template, rows.head(EXAMPLES).to_dicts())
    # The manifest has no OOD counts without OOD rules.
    counts = pl.DataFrame(
        {"split": split, "template": template, "ood": 0, **of_template}
        for split, templates in manifest["splits"].items()
        for template, of_template in templates.items()
    ).select("split", "template", "programs", "distinct", "sampled", "duplicates_kept", *FATES)

    def summed(shards: list[pl.DataFrame], *numbers: str) -> pl.DataFrame:
        keys = ["split", "template"]
        total = pl.concat(shards).group_by(*keys, *numbers).agg(pl.sum("programs")).sort(numbers)
        return counts.select(keys).join(total, on=keys, maintain_order="left_right")

    used = [
        (template, symbol, int(of_template[ord(symbol)]))
        for template, of_template in symbols.items()
        for symbol in isa.BY_SYMBOL
        if symbol != isa.END
    ]
    share = pl.col("count") / pl.col("count").sum().over("template")
    return Survey(
        manifest,
        sum((directory / file["file"]).stat().st_size for file in manifest["files"]),
        counts,
        summed(lengths, "length"),
        summed(values, "variable", "value"),
        pl.DataFrame(used, ["template", "symbol", "count"], orient="row").with_columns(share=share),
        examples,
    )


def _counted(name: str, numbers: pl.Series) -> pl.DataFrame:
    """Return the distinct numbers in column ``name``, and how many programs have each."""
    return numbers.cast(pl.Int64).alias(name).value_counts(name="programs")
