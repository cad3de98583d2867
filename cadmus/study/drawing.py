"""The files of a study, written from its results alone."""

from pathlib import Path

from cadmus.common.files import replacing
from cadmus.figures import style, tables
from cadmus.study import COMPARISON, PAGE, comparison, effects, files_of
from cadmus.study.page import page
from cadmus.study.results import read


def write_all(results: Path, directory: Path) -> list[Path]:
    """Write the comparison, a table per metric, a figure per factor, and the page.

    Args:
        results: file written by :func:`cadmus.study.results.collect`.
        directory: of the study.

    Returns:
        The files written, see :func:`cadmus.study.files_of`.

    Raises:
        InputError: the results are missing or damaged, or a file cannot be written.
    """
    study = read(results)
    with replacing(directory / COMPARISON) as temporary:
        comparison.compare(study).write_csv(temporary)
    for metric, table in comparison.tables(study).items():
        tables.save(table, table, [directory / f"tables/{metric}{suffix}" for suffix in (".md", ".tex")])
    images = {}
    for factor in study.factors:
        pdf, images[factor], csv = (
            directory / f"figures/{factor}{suffix}" for suffix in (".pdf", ".png", ".csv")
        )
        style.save(style.styled(effects.draw)(study, factor), [pdf, images[factor]])
        with replacing(csv) as temporary:
            effects.data(study, factor).write_csv(temporary)
    with replacing(directory / PAGE) as temporary:
        temporary.write_text(page(study, images), encoding="utf-8")
    return [directory / file for file in files_of(study.factors, study.compare)]
