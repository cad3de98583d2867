"""The figures and tables, one module each, drawn from numbers files alone.

A module holds ``COLUMNS``, the columns that each of its numbers files must have, and for a figure
``numbers``, what is drawn, and ``draw``, which returns a Matplotlib figure; for a table ``table``, which
returns its rows.
"""

from pathlib import Path

FIGURES = (
    "comparison_grid",
    "probe_final_block",
    "probe_layers",
    "output_tokens",
    "accuracy_by_distance",
    "training_curve",
)
TABLES = ("table1_related_work", "table2_instructions", "table3_accuracy")
NAMES = FIGURES + TABLES
FORMATS = {"figure": (".pdf", ".png", ".csv"), "table": (".csv", ".md", ".tex")}


def produce(name: str, numbers: list[Path], output: Path) -> list[Path]:
    """Draw a figure or render a table.

    Args:
        name: one of ``NAMES``.
        numbers: its numbers files, in the order of the module's ``COLUMNS``.
        output: a directory, in which the files are called ``name``; or, if it ends in one of the formats,
            the path of one of the files, the others being put beside it.

    Returns:
        The files written: .pdf, .png and .csv (the numbers drawn), or .csv, .md and .tex.

    Raises:
        InputError: no such figure, a wrong number of files, or a file that is missing or damaged.
    """
    import importlib

    from cadmus.errors import InputError
    from cadmus.evaluate.numbers import read_numbers
    from cadmus.figures import style, tables
    from cadmus.files import replacing

    if name not in NAMES:
        raise InputError(f"no figure or table {name!r}; there are {', '.join(NAMES)}")
    module = importlib.import_module(f"cadmus.figures.{name}")
    most = len(module.COLUMNS)
    least = most - getattr(module, "OPTIONAL", 0)
    if not least <= len(numbers) <= most:
        wanted = "; ".join(", ".join(columns) for columns in module.COLUMNS) or "none"
        count = f"{least}" if least == most else f"{least} or {most}"
        raise InputError(
            f"{name} is drawn from {count} numbers files, not {len(numbers)}; their columns: {wanted}"
        )
    frames = [read_numbers(path, columns) for path, columns in zip(numbers, module.COLUMNS, strict=False)]
    formats = FORMATS["figure" if name in FIGURES else "table"]
    if output.suffix in {suffix for kind in FORMATS.values() for suffix in kind} - set(formats):
        raise InputError(f"{output}: {name} is written as {', '.join(formats)}")
    stem = output.with_suffix("") if output.suffix in formats else output / name
    paths = [stem.with_name(stem.name + suffix) for suffix in formats]
    if name in FIGURES:
        style.save(module.draw(*frames), paths[:2])
        with replacing(paths[2]) as temporary:
            module.numbers(*frames).write_csv(temporary)
    else:
        tables.save(module.table(*frames), paths)
    return paths
