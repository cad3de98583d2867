"""Studies: the results of several runs in one file, and their comparison.

:mod:`cadmus.config.study` expands a config into runs, ``workflow/rules/study.smk`` starts them. All that is
written below the directory of a study comes from the one file of its results.
"""

from collections.abc import Collection

PAGE = "README.md"
COMPARISON = "comparison.csv"
FIGURE = "variants"
Models = dict[str, tuple[float, float]]
"""FLOPs and parameters of models by name."""


def files_of(parts: Collection[str]) -> list[str]:
    """Return the files that describe a study with these parts of labs."""
    drawn = [f"{name}{suffix}" for name in (FIGURE, *parts) for suffix in (".png", ".pdf")]
    return [PAGE, COMPARISON, *(f"{name}.csv" for name in parts), *drawn]
