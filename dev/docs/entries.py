"""The open tables of methods: what finds the variables of the machine in the shipped model, and its circuits.

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

PAGES = {"interchange": "features", "circuits": "circuits"}
"""Pages in docs/findings with the entries, by lab."""


def add_entry(scores: Path, method: str, root: Path) -> None:
    """Add scores to docs/findings/NAME/entries.csv, and the row of the method to the page there.

    ``scores`` are those of features of one layer, or those of edges.
    """
    with reading(scores, "give a result of `cadmus score`"):
        table, described = pl.read_parquet(scores), pl.read_parquet_metadata(scores)
    fitting = [lab for lab, each in scorings().items() if {*each.columns} <= {*table.columns}]
    if not fitting:
        raise SystemExit(f"{scores}: has not the columns of any lab; give a result of `cadmus score`")
    name, columns, variables = PAGES[fitting[0]], *scorings()[fitting[0]][2:]
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
    path = root / f"docs/findings/{name}/entries.csv"
    entries = pl.concat([pl.read_csv(path, schema_overrides=entry.schema), entry]) if path.exists() else entry
    write_text(path, entries.write_csv())
    page = root / f"docs/findings/{name}/README.md"
    write_text(page, with_generated(page, means(columns, entries)))


def scorings() -> dict[str, plugins.Scoring]:
    """Return what scores the files of each lab."""
    return {lab: plugins.module(lab, name).SCORING for lab, name in plugins.declared("SCORES").values()}


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
