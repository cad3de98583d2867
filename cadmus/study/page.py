"""The page of a study: its question, its figures and its tables in one HTML file."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

import polars as pl

from cadmus.config.study import LOSSES
from cadmus.study import LAW, LAW_FIGURE
from cadmus.study.results import Results

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1rem 0; } img { max-width: 100%; background: #fff; }
div { overflow-x: auto; } table { border-collapse: collapse; margin: .4rem 0; font-size: 13px; }
td, th { text-align: left; padding: .1rem 1rem .1rem 0; white-space: nowrap; }
th { font-weight: 600; } thead { border-bottom: 1px solid #8888; }
.missing { background: #ffd9b8; color: #000; padding: .2rem .6rem; }
</style>
<h1>$title</h1>
<p>Study <b>$name</b>: $counts. The trainings took $flops FLOPs and $hours hours. Commit $commit.</p>
$missing
$figures
$tables
<h2>trainings</h2><p>Means over seeds.</p><div>$trainings</div>
</html>
""")


def page(results: Results, tables: Mapping[str, pl.DataFrame], figures: Mapping[str, Path]) -> str:
    """Return the HTML page with a table per metric and the PNG files of the figures."""
    runs = results.rows.unique(["variant", "seed"], keep="first", maintain_order=True)
    trainings = results.rows.unique("directory")
    variants, seeds = runs["variant"].n_unique(), runs["seed"].n_unique()
    missing = "".join(
        f"<li>{escape(run.variant)}, seed {run.seed}: {escape(run.reason)}</li>" for run in results.missing
    )
    costs = runs.group_by(["variant"], maintain_order=True).agg(
        pl.col("flops", "seconds").mean(), pl.col("directory").str.join(" ")
    )
    rows = [
        (name, f"{flops:.3g}", f"{seconds:.0f}", place) for name, flops, seconds, place in costs.iter_rows()
    ]
    return _PAGE.substitute(
        title=escape(results.question or results.name),
        name=escape(results.name),
        counts=", ".join(
            f"{count} {name}{'s' * (count > 1)}"
            for count, name in ((variants, "variant"), (seeds, "seed"), (len(trainings), "training"))
        ),
        flops=f"{trainings['flops'].sum():.2g}",
        hours=f"{trainings['seconds'].sum() / 3600:.2g}",
        commit=escape(results.commit),
        missing=f'<p class="missing">Missing runs:</p><ul>{missing}</ul>' if missing else "",
        figures="\n".join(_figure(name, path) for name, path in figures.items()),
        tables="\n".join(_table(metric, table, results.base) for metric, table in tables.items()),
        trainings=_html(["", "FLOPs", "seconds", "results"], rows),
    )


def _figure(name: str, path: Path) -> str:
    caption = (
        f"Means over seeds by {escape(name)}, with 95% intervals; those of accuracies are over seeds "
        "and test programs."
    )
    if name == LAW_FIGURE:
        caption = (
            "A scaling law fitted to the loss of the variants, with 95% intervals over variants; numbers are "
            f"in {LAW}."
        )
    image = base64.b64encode(path.read_bytes()).decode()
    return (
        f'<figure><img src="data:image/png;base64,{image}" alt="{escape(name)}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(metric: str, table: pl.DataFrame, base: str) -> str:
    is_loss = metric in LOSSES
    unit = "in nats" if is_loss else "in percent; differences in percentage points"
    return (
        f"<h2>{escape(metric.replace('_', ' '))}</h2>"
        f"<p>{escape(base)}, and differences to it over the same seeds, {unit}, with 95% intervals "
        f"over seeds{'' if is_loss else ' and test programs'}.</p>"
        f"<div>{_html(table.columns, table.rows())}</div>"
    )


def _html(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles, *lines = (
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line)
        for tag, line in [("th", header), *(("td", row) for row in rows)]
    )
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return f"<table>\n<thead>\n<tr>{titles}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table>\n"
