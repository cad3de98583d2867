"""The files of a study, written from its results alone; the page shows its question, figures and tables."""

from pathlib import Path
from typing import Any

import polars as pl

from cadmus.config.study import HELD_OUT_LOSS, LOSSES
from cadmus.evaluate.questions import title
from cadmus.figures import style
from cadmus.store import replacing_together
from cadmus.study import COMPARISON, FIGURE, FILES, PAGE, forest
from cadmus.study.comparison import compare
from cadmus.study.results import Results, read
from cadmus.tables import code, counted, escape, markdown


def write_all(results: Path, directory: Path) -> list[Path]:
    """Write the comparison, figure and page of the results of a study; return the files.

    ``results`` is a file of :func:`cadmus.study.results.collect`.
    """
    study = read(results)
    compared = compare(study)
    figure = style.styled(forest.draw)(study, compared)
    with replacing_together() as replaced:
        compared.write_csv(replaced(directory / COMPARISON))
        style.save(figure, [replaced(directory / f"{FIGURE}{suffix}") for suffix in (".png", ".pdf")])
        replaced(directory / PAGE).write_text(page(study, compared), encoding="utf-8")
    return [directory / file for file in FILES]


def page(study: Results, compared: pl.DataFrame) -> str:
    """Return the page, with the comparison as tables."""
    runs = study.rows.unique(["variant", "seed"], keep="first", maintain_order=True)
    costs = runs.group_by("variant", maintain_order=True).agg(
        pl.col("flops", "seconds").mean(), pl.col("directory").str.join(" ")
    )
    rows = [
        [escape(name), f"{flops:.3g}", f"{seconds:.0f}", code(directories)]
        for name, flops, seconds, directories in costs.rows()
    ]
    missing = [
        f"- {escape(variant)}, seed {seed}: {escape(reason)}\n" for variant, seed, reason in study.missing
    ]
    return "\n".join(
        [
            f"# {escape(study.question or study.name)}\n",
            f"Study {escape(study.name)}: {cost(study)}\n",
            *(["Missing runs:\n", "".join(missing)] if missing else []),
            picture(study),
            numbers(study, compared),
            "## Trainings\n",
            "Means over seeds:\n",
            markdown(["", "FLOPs", "seconds", "results"], rows),
        ]
    )


def picture(study: Results) -> str:
    """Return the figure, which is next to the page, with its caption."""
    drawn = "Paired differences with 95% intervals; hollow points have 0 in theirs."
    if forest.has_means(study):
        drawn = "Means with 95% intervals."
    return f"![What each variant changes]({FIGURE}.png)\n\n*{drawn}*\n"


def numbers(study: Results, compared: pl.DataFrame) -> str:
    """Return the comparison as tables, one per metric; that of the first has the losses as well."""
    first, *others = _accuracies(study)
    tables = [table(compared, study.base, first, study.compare)]
    tables += [table(compared, study.base, metric) for metric in others]
    return "\n".join(["## All numbers\n", _caption(study), *tables])


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
