"""The files of a study, written from its results alone."""

from pathlib import Path

from cadmus.figures import style, tables
from cadmus.store import replacing_together
from cadmus.study import COMPARISON, LAW, LAW_FIGURE, PAGE, comparison, effects, files_of, law
from cadmus.study.page import page
from cadmus.study.results import read


def write_all(results: Path, directory: Path) -> list[Path]:
    """Write the comparison, a table per metric, a figure per factor, and the page; return the files.

    ``results`` is a file of :func:`cadmus.study.results.collect`. A scaling law, if the study has one, is
    left out while runs are missing.
    """
    study = read(results)
    has_law = bool(study.law_flops) and not study.missing
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
            law.table(fitted, laws, study.law_flops).write_csv(replaced(directory / LAW))
            figures[LAW_FIGURE] = style.styled(law.draw)(runs, fitted, laws, study.law_flops), runs
        images = {}
        for name, (figure, data) in figures.items():
            pdf, images[name], csv = (
                replaced(directory / f"figures/{name}{suffix}") for suffix in (".pdf", ".png", ".csv")
            )
            style.save(figure, [pdf, images[name]])
            data.write_csv(csv)
        html = page(study, texts, images)
        replaced(directory / PAGE).write_text(html, encoding="utf-8")
    return [directory / file for file in files_of(study.factors, study.compare, has_law)]
