"""The published results of a study, and the part of its page in docs/findings that is written from them."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.config.study import HELD_OUT_LOSS, LOSSES
from cadmus.evaluate.questions import title
from cadmus.store import write_text
from cadmus.study import COMPARISON, LAW, LAW_FIGURE, files_of
from cadmus.study.comparison import compare
from cadmus.study.drawing import write_all
from cadmus.study.law import budget_of
from cadmus.study.results import Results, read
from cadmus.tables import escape, markdown
from dev.docs import BEGIN, END, with_generated

_FILE = "study.parquet"


def publish(results: Path, root: Path) -> None:
    """Write the results of a study to docs/results/studies/NAME and into its page, docs/findings/NAME.md.

    A new page begins with the question of the study.
    """
    study = read(results)
    if study.missing:
        raise SystemExit(f"{results}: {len(study.missing)} runs are missing; finish the study first")
    page = root / f"docs/findings/{study.name}.md"
    text = None if page.is_file() else f"# {escape(study.question)}\n\n{BEGIN}\n{END}\n"
    directory = root / "docs/results/studies" / study.name
    made = files_of(study.factors, [], bool(budget_of(study)[1]))
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder)
        write_all(results, drawn)
        block = with_generated(page, _block(study, drawn), text)
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(results, directory / _FILE)
        # Tables last: the law is one, and its figure has data of the same name.
        for name in sorted(name for name in made if name.endswith((".png", ".csv"))):
            shutil.copyfile(drawn / name, directory / Path(name).name)
    write_text(page, block)


def _block(study: Results, drawn: Path) -> str:
    """Return the part of the page that is written from the results and from the tables in ``drawn``."""
    files = f"../results/studies/{study.name}"
    trainings = study.rows.unique("directory")
    hours = trainings["seconds"].sum() / 3600
    law = []
    if budget_of(study)[1]:
        law = [f"![Scaling law]({files}/{LAW_FIGURE}.png)\n", _law_text(drawn / LAW, study, files)]
    factors = [f"![All metrics by {escape(factor)}]({files}/{factor}.png)\n" for factor in study.factors]
    origin = (
        f"{len(trainings)} trainings, {trainings['flops'].sum():.2g} FLOPs, {hours:.2g} h of training; "
        f"commit {escape(study.commit[:7])}. Files: [study.parquet]({files}/{_FILE}), "
        f"[comparison.csv]({files}/{Path(COMPARISON).name}). To repeat it:\n\n"
        "```sh\n"
        f"snakemake --cores all --configfile config/studies/{study.name}.yaml\n"
        f"python -m dev.docs study results/{study.name}/study.parquet\n"
        "```\n"
    )
    return "\n".join([*law, *factors, _caption(study), summary(study), origin])


def _caption(study: Results) -> str:
    loss = ""
    for name in [name for name in study.compare if name in LOSSES][:1]:
        of = "test programs" if name == HELD_OUT_LOSS else "the last tenth of the steps"
        loss = f" {name.replace('_', ' ')} of {of} in nats,"
    return (
        f"Means over {study.rows['seed'].n_unique()} seeds:{loss} {_metric(study).replace('_', ' ')} in "
        f"percent. {escape(study.base)} has its mean, the others the difference to it over the same seeds, "
        "in percentage points. ± is the half-width of the 95% interval, over seeds and test programs for "
        "accuracies and over seeds for losses. Bold: the interval excludes 0; of many such cells, up to one "
        "in twenty does by chance.\n"
    )


def _metric(study: Results) -> str:
    """Return the first accuracy that is compared."""
    return next((name for name in study.compare if name not in LOSSES), study.compare[0])


def summary(study: Results) -> str:
    """Return the comparison in one Markdown table: a row per variant, a column per loss and question."""
    compared = compare(study)
    losses = compared.filter(pl.col("metric").is_in(LOSSES) & (pl.col("metric") != "loss"))
    shown = pl.concat([losses, compared.filter(metric=_metric(study))])
    cells = {(row["variant"], row["metric"], row["template"]): row for row in shown.to_dicts()}
    columns = {key[1:]: row["baseline"] for key, row in cells.items()}
    titles = [metric.replace("_", " ") if metric in LOSSES else title(name) for metric, name in columns]
    rows = [
        [escape(variant), *(_cell(cells.get((variant, *column))) for column in columns)]
        for variant in dict.fromkeys(variant for variant, *_ in cells)
    ]
    best = ["" if baseline is None else f"{100 * baseline:.1f}" for baseline in columns.values()]
    return markdown(["", *map(escape, titles)], [*rows, ["best baseline", *best]])


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    scale, digits = (1, 4) if row["metric"] in LOSSES else (100, 1)
    is_base = row["difference"] is None
    names = ("mean", "low", "high") if is_base else ("difference", "difference_low", "difference_high")
    mean, low, high = (row[name] for name in names)
    text = f"{scale * mean:{'' if is_base else '+'}.{digits}f}"
    if low is None or high is None:
        return text
    text += f" ± {max(scale * (high - low) / 2, 0.1**digits):.{digits}f}"
    return f"**{text}**" if not is_base and low * high > 0 else text


def _law_text(path: Path, study: Results, files: str) -> str:
    """Return the law as a formula, and a table of the optimal size for each budget."""
    unit, budgets = budget_of(study)
    rows = {name: interval for name, *interval in pl.read_csv(path).iter_rows()}
    fits = {name: f"{value:.3g}" for name, (value, _, _) in rows.items()}
    formula = "loss = {E} + {A} / N^{alpha} + {B} / D^{beta}".format_map(fits)

    def cell(name: str, show: Callable[[float], str]) -> str:
        return "{} [{}, {}]".format(*map(show, rows[name]))

    def rounded(value: float) -> str:
        return f"{float(f'{value:.2g}'):,.0f}"

    shown = {"parameters": rounded, "programs": rounded, "loss": "{:.3f}".format}
    optimal = [
        [f"{amount:.3g}", *(cell(f"{name} at {amount:.3g}", show) for name, show in shown.items())]
        for amount in budgets
    ]
    return (
        f"With N parameters and D programs, `{formula}`. For large budgets the optimal N grows as {unit} to "
        f"the power of {cell('exponent', '{:.2f}'.format)} "
        f"([all coefficients]({files}/{Path(LAW).name})).\n\n"
        + markdown([unit, "optimal parameters", "programs", "loss in nats"], optimal)
    )
