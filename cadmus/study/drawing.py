"""The files of a study, written from its results alone; the page shows its question, figures and tables."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

import polars as pl

from cadmus.config.study import LOSSES
from cadmus.figures import style, tables
from cadmus.store import replacing_together
from cadmus.study import COMPARISON, LAW, LAW_FIGURE, PAGE, comparison, effects, files_of, law
from cadmus.study.results import Results, read

_TEMPLATE = Template("""\
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


def write_all(results: Path, directory: Path) -> list[Path]:
    """Write the comparison, a table per metric, a figure per factor, and the page; return the files.

    ``results`` is a file of :func:`cadmus.study.results.collect`. A scaling law, if the study has one, is
    left out while runs are missing.
    """
    study = read(results)
    unit, budgets = law.budget_of(study)
    has_law = bool(budgets) and not study.missing
    texts = comparison.tables(study)
    draw = style.styled(effects.draw)
    figures = {factor: (draw(study, factor), effects.data(study, factor)) for factor in study.factors}
    with replacing_together() as replaced:
        comparison.compare(study).write_csv(replaced(directory / COMPARISON))
        for metric, text in texts.items():
            replaced(directory / f"tables/{metric}.md").write_text(tables.render(text), encoding="utf-8")
        if has_law:
            runs = law.runs_of(study)
            fitted = law.fit(runs)
            laws = law.resampled(runs, fitted)
            law.table(fitted, laws, budgets).write_csv(replaced(directory / LAW))
            figures[LAW_FIGURE] = style.styled(law.draw)(runs, fitted, laws, unit, budgets), runs
        images = {}
        for name, (figure, data) in figures.items():
            pdf, images[name], csv = (
                replaced(directory / f"figures/{name}{suffix}") for suffix in (".pdf", ".png", ".csv")
            )
            style.save(figure, [pdf, images[name]])
            data.write_csv(csv)
        replaced(directory / PAGE).write_text(_page(study, texts, images), encoding="utf-8")
    return [directory / file for file in files_of(study.factors, study.compare, has_law)]


def _page(results: Results, texts: Mapping[str, pl.DataFrame], figures: Mapping[str, Path]) -> str:
    runs = results.rows.unique(["variant", "seed"], keep="first", maintain_order=True)
    trainings = results.rows.unique("directory")
    variants, seeds = runs["variant"].n_unique(), runs["seed"].n_unique()
    missing = "".join(
        f"<li>{escape(variant)}, seed {seed}: {escape(reason)}</li>"
        for variant, seed, reason in results.missing
    )
    costs = runs.group_by("variant", maintain_order=True).agg(
        pl.col("flops", "seconds").mean(), pl.col("directory").str.join(" ")
    )
    rows = [(name, f"{flops:.3g}", f"{seconds:.0f}", places) for name, flops, seconds, places in costs.rows()]
    return _TEMPLATE.substitute(
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
        tables="\n".join(_table(metric, table, results.base) for metric, table in texts.items()),
        trainings=_html(["", "FLOPs", "seconds", "results"], rows),
    )


def _figure(name: str, path: Path) -> str:
    if name == LAW_FIGURE:
        caption = "A scaling law fitted to the loss of the variants, with 95% intervals over variants; "
        caption += f"numbers are in {LAW}."
    else:
        caption = f"Means over seeds by {escape(name)}, with 95% intervals; "
        caption += "those of accuracies are over seeds and test programs."
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
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>\n"

    body = "".join(line(row, "td") for row in rows)
    return f"<table>\n<thead>\n{line(header, 'th')}</thead>\n<tbody>\n{body}</tbody>\n</table>\n"
