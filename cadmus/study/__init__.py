"""Studies: the results of several runs in one file, and their comparison.

:mod:`cadmus.config.study` expands a config into runs, ``workflow/rules/study.smk`` starts them. All that is
written below the directory of a study comes from the one file of its results.
"""

PAGE = "README.md"
COMPARISON = "comparison.csv"
FIGURE = "variants"
LAW = "law"


def files_of(law: bool) -> list[str]:
    """Return the files that describe a study, with or without a scaling law."""
    names = (FIGURE, LAW) if law else (FIGURE,)
    drawn = [f"{name}{suffix}" for name in names for suffix in (".png", ".pdf")]
    return [PAGE, COMPARISON, *([f"{LAW}.csv"] if law else []), *drawn]
