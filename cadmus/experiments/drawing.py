"""Figures, tables and pages as files."""

import importlib
from pathlib import Path

from cadmus.errors import InputError, naming, suggest
from cadmus.evaluate.results import read_results
from cadmus.experiments import FORMATS, figures
from cadmus.store import replacing_together


def produce(name: str, results: list[Path], output: Path) -> list[Path]:
    """Draw a figure, or render a table or a page, from result files.

    Args:
        name: see :func:`cadmus.experiments.figures`.
        results: its result files, in the order of the module's ``COLUMNS``.
        output: a directory, or the path of one of the files; the other formats go beside it.

    Returns:
        The files written: .pdf, .png and .csv (the data drawn), or .csv, .md and .tex, or .html.
    """
    if name not in figures():
        raise InputError(f"no figure, table or page {name!r}; {suggest(name, figures())}")
    figure = figures()[name]
    module = importlib.import_module(figure.module or f"cadmus.figures.{name}")
    most = len(module.COLUMNS)
    least = most - ("llm" in figure.sources)
    if not least <= len(results) <= most:
        wanted = "; ".join(", ".join(columns) for columns in module.COLUMNS) or "none"
        count = f"{least}" if least == most else f"{least} or {most}"
        raise InputError(
            f"{name}: drawn from {count} result files, got {len(results)}; their columns: {wanted}"
        )
    frames = [read_results(path, columns) for path, columns in zip(results, module.COLUMNS, strict=False)]
    formats = FORMATS[figure.kind]
    if output.suffix in {suffix for of_kind in FORMATS.values() for suffix in of_kind} - set(formats):
        raise InputError(f"{output}: {name} is written as {', '.join(formats)}")
    stem = output.with_suffix("") if output.suffix in formats else output / name
    paths = [stem.with_name(stem.name + suffix) for suffix in formats]
    with replacing_together() as replaced:
        temporary = [replaced(path) for path in paths]
        if figure.kind == "figure":
            from cadmus.figures import style

            with naming(", ".join(map(str, results))):
                drawn, data = style.styled(module.draw)(*frames), module.data(*frames)
            style.save(drawn, temporary[:2])
            data.write_csv(temporary[2])
        elif figure.kind == "table":
            from cadmus.figures import tables

            with naming(", ".join(map(str, results))):
                table = module.table(*frames)
                data = module.data(*frames) if hasattr(module, "data") else table
            tables.save(table, data, temporary)
        else:
            with naming(", ".join(map(str, results))):
                page = module.page(*frames)
            temporary[0].write_text(page, encoding="utf-8")
    return paths
