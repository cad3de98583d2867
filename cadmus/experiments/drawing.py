"""Figures and tables as files."""

import importlib
from pathlib import Path

import polars as pl

from cadmus.columns import Table
from cadmus.errors import InputError, naming, suggest
from cadmus.experiments import FORMATS, figures, table
from cadmus.experiments.experiment import Figure
from cadmus.figures import style
from cadmus.figures import tables as texts
from cadmus.store import read_results, replacing_together


def produce(name: str, results: list[Path], output: Path) -> list[Path]:
    """Draw a figure, or render a table, from a file of each of its sources; return the files.

    A figure that compares runs takes several files of its source. ``output`` is a directory, or the path of
    one of the files.
    """
    if name not in figures():
        raise InputError(f"no figure or table {name!r}; {suggest(name, figures())}")
    figure = figures()[name]
    return render(figure, [table(source) for source in figure.sources], results, output)


def render(figure: Figure, declared: list[Table], results: list[Path], output: Path) -> list[Path]:
    """Do the same for a figure that may be declared elsewhere; its sources have the ``declared`` tables."""
    name = figure.name
    several = figure.compares and len(results) > 1
    if len(results) != len(figure.sources) and not several:
        names = f" ({', '.join(figure.sources)})" if figure.sources else ""
        raise InputError(f"{name}: drawn from {len(figure.sources)} result files{names}, got {len(results)}")
    formats = FORMATS[figure.kind]
    of_other_kinds = {suffix for suffixes in FORMATS.values() for suffix in suffixes} - set(formats)
    if output.suffix in of_other_kinds:
        raise InputError(f"{output}: {name} is written as {', '.join(formats)}")
    stem = output.with_suffix("") if output.suffix in formats else output / name
    paths = [stem.with_name(stem.name + suffix) for suffix in formats]
    tables = declared * len(results) if several else declared
    frames = [read_results(path, of)[0] for path, of in zip(results, tables, strict=True)]
    if several:
        named = zip(names_of(results), frames, strict=True)
        frames = [pl.concat([frame.with_columns(run=pl.lit(run)) for run, frame in named], how="diagonal")]
    module = importlib.import_module(figure.module or f"cadmus.figures.{name}")
    with replacing_together() as replaced:
        temporary = [replaced(path) for path in paths]
        with naming(", ".join(map(str, results))):
            if figure.kind == "figure":
                style.save(style.styled(module.draw)(*frames), temporary[:2])
                module.data(*frames).write_csv(temporary[2])
            else:
                shown = module.table(*frames)
                numbers = module.data(*frames) if hasattr(module, "data") else shown
                numbers.write_csv(temporary[0])
                temporary[1].write_text(texts.render(shown), encoding="utf-8")
    return paths


def names_of(paths: list[Path]) -> list[str]:
    """Return the parts of paths in which they differ.

    >>> names_of([Path("results/a/training/metrics.jsonl"), Path("results/b/training/metrics.jsonl")])
    ['a', 'b']
    """
    parts = [path.absolute().parts for path in paths]
    if len(set(parts)) < len(parts):
        raise InputError(f"{', '.join(map(str, paths))}: the same file twice; give each run once")
    first = next(depth for depth, names in enumerate(zip(*parts, strict=False)) if len(set(names)) > 1)
    backwards = zip(*(names[::-1] for names in parts), strict=False)
    last = next(depth for depth, names in enumerate(backwards) if len(set(names)) > 1)
    return [str(Path(*names[first : max(first + 1, len(names) - last)])) for names in parts]
