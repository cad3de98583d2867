"""The open tables of methods: what finds the variables of the machine in the shipped model, and its circuits.

Each entry is the result of ``cadmus score`` on the file of somebody's method.
"""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from cadmus.errors import reading
from cadmus.evaluate import score, score_edges
from cadmus.evaluate.counterfactuals import VARIABLES
from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import weights_digest
from cadmus.store import write_text
from cadmus.tables import escape, markdown
from dev.docs import with_generated

KINDS = {
    "features": (score.COLUMNS, tuple(VARIABLES)),
    "circuits": (score_edges.COLUMNS, score_edges.LOCAL),
}
"""By the name of its page in docs/findings: the scores of a table, and the variables that an entry has."""


def add_entry(scores: Path, method: str, root: Path) -> None:
    """Add scores to docs/results/NAME/entries.csv, and the row of the method to docs/findings/NAME.md.

    ``scores`` are those of features of one layer, or those of edges.
    """
    with reading(scores, "give a result of `cadmus score`"):
        table, described = pl.read_parquet(scores), pl.read_parquet_metadata(scores)
    name = "features" if "layer" in table.columns else "circuits"
    columns, variables = KINDS[name]
    if missing := {"variable", "programs", *columns} - set(table.columns):
        raise SystemExit(f"{scores}: has no column {min(missing)}; give a result of `cadmus score`")
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
    path = root / f"docs/results/{name}/entries.csv"
    entries = pl.concat([pl.read_csv(path, schema_overrides=entry.schema), entry]) if path.exists() else entry
    write_text(path, entries.write_csv())
    page = root / f"docs/findings/{name}.md"
    write_text(page, with_generated(page, means(name, entries)))


def means(name: str, entries: pl.DataFrame) -> str:
    """Return the table of the means over variables, the oldest entry first."""
    columns, _ = KINDS[name]
    groups = entries.group_by("date", "method", maintain_order=True)
    rows = groups.agg(pl.col("programs").min(), pl.col(columns).mean())
    return markdown(
        ["date", "method", "pairs", *columns],
        [
            [date, escape(method), f"{pairs}", *("–" if each is None else f"{each:.2f}" for each in own)]
            for date, method, pairs, *own in rows.iter_rows()
        ],
    )
