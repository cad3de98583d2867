"""The files of a study, written from its results alone."""

from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import style, tables
from cadmus.store import replacing_together
from cadmus.study import COMPARISON, LAW, LAW_FIGURE, PAGE, comparison, effects, files_of, law
from cadmus.study.page import page
from cadmus.study.results import Results, read


def write_all(results: Path, directory: Path) -> list[Path]:
    """Write the comparison, a table per metric, a figure per factor, and the page.

    A scaling law, if the study has one, is left out while runs are missing.

    Args:
        results: file written by :func:`cadmus.study.results.collect`.
        directory: of the study.

    Returns:
        The files written, see :func:`cadmus.study.files_of`.
    """
    study = read(results)
    images = {}
    has_law = bool(study.law_flops) and not study.missing
    with replacing_together() as replaced:
        comparison.compare(study).write_csv(replaced(directory / COMPARISON))
        for metric, table in comparison.tables(study).items():
            suffixes = (".md", ".tex")
            tables.save(
                table, table, [replaced(directory / f"tables/{metric}{suffix}") for suffix in suffixes]
            )
        figures = {
            factor: (style.styled(effects.draw)(study, factor), effects.data(study, factor))
            for factor in study.factors
        }
        if has_law:
            fitted, law_figure, runs = _law(study)
            fitted.write_csv(replaced(directory / LAW))
            figures[LAW_FIGURE] = law_figure, runs
        for name, (figure, data) in figures.items():
            pdf, images[name], csv = (
                replaced(directory / f"figures/{name}{suffix}") for suffix in (".pdf", ".png", ".csv")
            )
            style.save(figure, [pdf, images[name]])
            data.write_csv(csv)
        replaced(directory / PAGE).write_text(page(study, images), encoding="utf-8")
    return [directory / file for file in files_of(study.factors, study.compare, has_law)]


def _law(study: Results) -> tuple[pl.DataFrame, Figure, pl.DataFrame]:
    """Return the table of the law, its figure and the data of the figure."""
    runs = law.runs_of(study)
    fitted = law.fit(runs)
    laws = law.resampled(runs, fitted)
    figure = style.styled(law.draw)(runs, fitted, laws, study.law_flops)
    return law.table(fitted, laws, study.law_flops), figure, runs
