"""The open table of methods: what finds the variables of the machine in the shipped model.

Each entry is the result of ``cadmus score`` on the file of somebody's method.
"""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from cadmus import plugins
from cadmus.errors import reading
from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import weights_digest
from cadmus.store import write_text
from cadmus.tables import escape, markdown
from dev.docs import with_generated

FOLDER = "docs/findings/features"


def add_entry(scores: Path, method: str, root: Path) -> None:
    """Add scores of features of one layer to its ``entries.csv``, and the row of the method to the page."""
    with reading(scores, "give a result of `cadmus score`"):
        table, described = pl.read_parquet(scores), pl.read_parquet_metadata(scores)
    columns, variables = scoring().columns, scoring().variables
    if missing := [name for name in columns if name not in table.columns]:
        raise SystemExit(f"{scores}: has no column {missing[0]}; give a result of `cadmus score`")
    if sorted(table["variable"]) != sorted(variables):
        raise SystemExit(f"{scores}: an entry has one row for each of {', '.join(variables)}")
    # Scores from Python do not name their model; each entry is repeated anyway.
    shipped = weights_digest(DEFAULT_MODEL)
    if described.get("model_digest", shipped) != shipped:
        raise SystemExit(f"{scores}: are of another model; entries are of models/{DEFAULT_MODEL.name}")
    entry = table.select(
        pl.lit(datetime.now(UTC).date().isoformat()).alias("date"),
        pl.lit(method).alias("method"),
        *("variable", "programs", *columns),
    )
    path, page = (root / FOLDER / name for name in ("entries.csv", "README.md"))
    # Earlier entries may have scores that are no longer measured.
    entries = pl.concat([pl.read_csv(path, schema_overrides=entry.schema), entry], how="diagonal")
    write_text(path, entries.write_csv())
    write_text(page, with_generated(page, means(columns, entries)))


def scoring() -> plugins.Scoring:
    """Return what scores features."""
    lab, name = plugins.declared("SCORES")[".safetensors"]
    found: plugins.Scoring = plugins.module(lab, name).SCORING
    return found


def means(columns: tuple[str, ...], entries: pl.DataFrame) -> str:
    """Return the table of the means over variables, the oldest entry first."""
    groups = entries.group_by("date", "method", maintain_order=True)
    rows = groups.agg(pl.col("programs").min(), pl.col(columns).mean())
    return markdown(
        ["date", "method", "pairs", *columns],
        [
            [date, escape(method), f"{pairs}", *("–" if each is None else f"{each:.2f}" for each in own)]
            for date, method, pairs, *own in rows.iter_rows()
        ],
    )
