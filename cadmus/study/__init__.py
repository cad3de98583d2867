"""Studies: the results of several runs in one file, and their comparison.

:mod:`cadmus.config.study` expands a config into runs, ``workflow/rules/study.smk`` starts them. All that is
written below the directory of a study comes from the one file of its results.
"""

PAGE = "study.html"
COMPARISON = "tables/comparison.csv"
LAW = "tables/law.csv"
LAW_FIGURE = "law"


def files_of(factors: list[str], metrics: list[str], law: bool = False) -> list[str]:
    """Return the files that describe a study: its factors with several levels, the metrics it compares."""
    figures = [*factors, *([LAW_FIGURE] if law else [])]
    return [
        PAGE,
        COMPARISON,
        *([LAW] if law else []),
        *(f"tables/{metric}.md" for metric in metrics),
        *(f"figures/{figure}{suffix}" for figure in figures for suffix in (".pdf", ".png", ".csv")),
    ]
