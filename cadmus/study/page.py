"""The files of a study, written from its results alone; the page shows its question, figures and tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.config.study import HELD_OUT_LOSS, LOSSES
from cadmus.errors import naming
from cadmus.evaluate.questions import title
from cadmus.figures import style
from cadmus.store import replacing_together
from cadmus.study import COMPARISON, FIGURE, LAW, PAGE, files_of, forest, law
from cadmus.study.comparison import compare
from cadmus.study.results import Results, read
from cadmus.tables import code, counted, escape, markdown


def write_all(results: Path, directory: Path, models: law.Models | None = None) -> list[Path]:
    """Write the comparison, the figures and the page; return the files.

    ``results`` is a file of :func:`cadmus.study.results.collect`. A scaling law, if the study has one, is
    left out while runs are missing; ``models`` are points in its figure.
    """
    study = read(results)
    compared = compare(study)
    unit, budgets = law.budget_of(study)
    has_law = bool(budgets) and not study.missing
    figures = {FIGURE: style.styled(forest.draw)(study, compared)}
    optimal = None
    if has_law:
        with naming(results):
            runs = law.runs_of(study)
        fitted = law.fit(runs)
        laws = law.resampled(runs, fitted)
        optimal = law.table(fitted, laws, budgets)
        figures[LAW] = style.styled(law.draw)(runs, fitted, laws, unit, budgets, models or {})
        if set(study.compare) - set(LOSSES):
            figures[FIGURE] = style.styled(law.draw_accuracies)(runs, compared, unit)
    with replacing_together() as replaced:
        compared.write_csv(replaced(directory / COMPARISON))
        if optimal is not None:
            optimal.write_csv(replaced(directory / f"{LAW}.csv"))
        for name, figure in figures.items():
            style.save(figure, [replaced(directory / f"{name}{suffix}") for suffix in (".png", ".pdf")])
        replaced(directory / PAGE).write_text(page(study, compared, optimal), encoding="utf-8")
    return [directory / file for file in files_of(has_law)]


def page(study: Results, compared: pl.DataFrame, optimal: pl.DataFrame | None) -> str:
    """Return the page; ``compared`` is the comparison and ``optimal`` the table of the law."""
    runs = study.rows.unique(["variant", "seed"], keep="first", maintain_order=True)
    costs = runs.group_by("variant", maintain_order=True).agg(
        pl.col("flops", "seconds").mean(), pl.col("directory").str.join(" ")
    )
    rows = [
        [escape(name), f"{flops:.3g}", f"{seconds:.0f}", code(places)]
        for name, flops, seconds, places in costs.rows()
    ]
    missing = [
        f"- {escape(variant)}, seed {seed}: {escape(reason)}\n" for variant, seed, reason in study.missing
    ]
    return "\n".join(
        [
            f"# {escape(study.question or study.name)}\n",
            f"Study {escape(study.name)}: {cost(study)}\n",
            *(["Missing runs:\n", "".join(missing)] if missing else []),
            figures(study, optimal, "."),
            "## All numbers\n",
            _caption(study),
            table(compared, study.base, _accuracies(study)[0], study.compare),
            *(table(compared, study.base, metric) for metric in _accuracies(study)[1:]),
            "## Trainings\n",
            "Means over seeds:\n",
            markdown(["", "FLOPs", "seconds", "results"], rows),
        ]
    )


def figures(study: Results, optimal: pl.DataFrame | None, files: str) -> str:
    """Return the figures, which are in the directory ``files``, and the table of the law."""
    variants = f"![What each variant changes]({files}/{FIGURE}.png)\n"
    if optimal is None:
        drawn = "Paired differences with 95% intervals; hollow points have 0 in theirs."
        if forest.has_means(study):
            drawn = "Means with 95% intervals."
        return f"{variants}\n*{drawn}*\n"
    return "\n".join([f"![Scaling law]({files}/{LAW}.png)\n", _law_text(optimal, study, files), variants])


def cost(study: Results) -> str:
    """Return the number of trainings and what they cost."""
    trainings = study.rows.unique("directory")
    return (
        f"{counted(len(trainings), 'training')}, {trainings['flops'].sum():.2g} FLOPs, "
        f"{trainings['seconds'].sum() / 3600:.2g} h of training; commit {escape(study.commit[:7])}."
    )


def _accuracies(study: Results) -> list[str]:
    """Return the accuracies that are compared; the first loss if there are none."""
    return [name for name in study.compare if name not in LOSSES] or study.compare[:1]


def _caption(study: Results) -> str:
    losses = [name for name in study.compare if name in LOSSES]
    accuracies = [name for name in study.compare if name not in LOSSES]
    units = []
    if losses:
        measured_on = "test programs" if losses[0] == HELD_OUT_LOSS else "the last tenth of the steps"
        units.append(f"{losses[0].replace('_', ' ')} of {measured_on} in nats")
    if accuracies:
        units.append(f"{accuracies[0].replace('_', ' ')} in percent")
    seeds = counted(study.rows["seed"].n_unique(), "seed")
    caption = f"The row {escape(study.base)} has means over {seeds}: {', '.join(units)}."
    interval = (
        "± is half of the 95% interval: over seeds and test programs for accuracies, over seeds for losses."
    )
    if study.rows["variant"].n_unique() == 1:
        return f"{caption} {interval}\n"
    points = ", accuracies in percentage points" if accuracies else ""
    return (
        f"{caption} The other rows have paired differences from it{points}. {interval} Bold: 0 is outside "
        "the interval; expect that of 1 cell in 20 by chance.\n"
    )


def table(compared: pl.DataFrame, base: str, metric: str, losses: list[str] | tuple[()] = ()) -> str:
    """Return a comparison as a Markdown table: a row per variant, a column per question and loss.

    ``losses`` are columns before those of ``metric``, except the loss of all tokens.
    """
    shown = [name for name in losses if name in LOSSES and name not in ("loss", metric)]
    compared = pl.concat(compared.filter(metric=name) for name in (*shown, metric))
    cells = {(row["variant"], row["metric"], row["template"]): row for row in compared.to_dicts()}
    columns = {key[1:]: row["baseline"] for key, row in cells.items()}
    titles = [name.replace("_", " ") if name in LOSSES else title(question) for name, question in columns]
    rows = [
        [escape(variant), *(_cell(cells.get((variant, *column)), base) for column in columns)]
        for variant in dict.fromkeys(variant for variant, *_ in cells)
    ]
    best = ["" if baseline is None else f"{100 * baseline:.1f}" for baseline in columns.values()]
    if any(best):
        rows.append(["best baseline", *best])
    first = metric.replace("_", " ") if not losses else ""
    return markdown([first, *map(escape, titles)], rows)


def _cell(row: dict[str, Any] | None, base: str) -> str:
    if row is None:
        return "missing"
    scale, digits = (1, 4) if row["metric"] in LOSSES else (100, 1)
    is_base = row["variant"] == base
    names = ("mean", "low", "high") if is_base else ("difference", "difference_low", "difference_high")
    mean, low, high = (row[name] for name in names)
    if mean is None:
        return "no common seed"
    text = f"{scale * mean:{'' if is_base else '+'}.{digits}f}"
    if low is None or high is None:
        return text
    text += f" ± {max(scale * (high - low) / 2, 0.1**digits):.{digits}f}"
    return f"**{text}**" if not is_base and low * high > 0 else text


def _law_text(optimal: pl.DataFrame, study: Results, files: str) -> str:
    """Return the law as a formula, and a table of the optimal size for each budget."""
    unit, budgets = law.budget_of(study)
    rows = {name: interval for name, *interval in optimal.iter_rows()}
    fits = {name: f"{value:.3g}" for name, (value, _, _) in rows.items()}
    formula = "loss = {E} + {A} / N^{alpha} + {B} / D^{beta}".format_map(fits)

    def cell(name: str, show: Callable[[float], str]) -> str:
        return "{} [{}, {}]".format(*map(show, rows[name]))

    def rounded(value: float) -> str:
        return f"{float(f'{value:.2g}'):,.0f}"

    shown = {"parameters": rounded, "programs": rounded, "loss": "{:.3f}".format}
    by_budget = [
        [f"{amount:.3g}", *(cell(f"{name} at {amount:.3g}", show) for name, show in shown.items())]
        for amount in budgets
    ]
    return (
        f"With N parameters and D programs, `{formula}`. For large budgets the optimal N grows as {unit} to "
        f"the power of {cell('exponent', '{:.2f}'.format)} "
        f"([all coefficients]({files}/{LAW}.csv)).\n\n"
        + markdown([unit, "optimal parameters", "programs", "loss in nats"], by_budget)
    )
