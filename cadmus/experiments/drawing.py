"""Figures, tables and pages as files."""

import importlib
from pathlib import Path

from cadmus.columns import Table
from cadmus.errors import InputError, naming, suggest
from cadmus.experiments import FORMATS, figures, table
from cadmus.experiments.experiment import Figure
from cadmus.figures import style, tables
from cadmus.store import read_results, replacing_together


def produce(name: str, results: list[Path], output: Path) -> list[Path]:
    """Draw a figure, or render a table or a page, from a file of each of its sources; return the files.

    ``output`` is a directory, or the path of one of the files.
    """
    if name not in figures():
        raise InputError(f"no figure, table or page {name!r}; {suggest(name, figures())}")
    figure = figures()[name]
    return render(figure, [table(source) for source in figure.sources], results, output)


def render(figure: Figure, declared: list[Table], results: list[Path], output: Path) -> list[Path]:
    """Do the same for a figure that may be declared elsewhere; its sources have the ``declared`` tables."""
    name = figure.name
    if len(results) != len(figure.sources):
        names = f" ({', '.join(figure.sources)})" if figure.sources else ""
        raise InputError(f"{name}: drawn from {len(figure.sources)} result files{names}, got {len(results)}")
    formats = FORMATS[figure.kind]
    of_other_kinds = {suffix for suffixes in FORMATS.values() for suffix in suffixes} - set(formats)
    if output.suffix in of_other_kinds:
        raise InputError(f"{output}: {name} is written as {', '.join(formats)}")
    stem = output.with_suffix("") if output.suffix in formats else output / name
    paths = [stem.with_name(stem.name + suffix) for suffix in formats]
    frames = [read_results(path, of)[0] for path, of in zip(results, declared, strict=True)]
    module = importlib.import_module(figure.module or f"cadmus.figures.{name}")
    with replacing_together() as replaced:
        temporary = [replaced(path) for path in paths]
        with naming(", ".join(map(str, results))):
            if figure.kind == "figure":
                style.save(style.styled(module.draw)(*frames), temporary[:2])
                module.data(*frames).write_csv(temporary[2])
            elif figure.kind == "table":
                shown = module.table(*frames)
                numbers = module.data(*frames) if hasattr(module, "data") else shown
                numbers.write_csv(temporary[0])
                temporary[1].write_text(tables.render(shown), encoding="utf-8")
            else:
                temporary[0].write_text(module.page(*frames), encoding="utf-8")
    return paths
