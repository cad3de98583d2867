"""Studies: the results of several runs in one file, and their comparison.

:mod:`cadmus.config.study` expands a config into runs, ``workflow/rules/study.smk`` starts them.
"""

PAGE = "study.html"
COMPARISON = "tables/comparison.csv"


def files_of(factors: list[str], metrics: list[str]) -> list[str]:
    """Return the files that describe a study with these factors and compared metrics, below its directory."""
    return [
        PAGE,
        COMPARISON,
        *(f"tables/{metric}{suffix}" for metric in metrics for suffix in (".md", ".tex")),
        *(f"figures/{factor}{suffix}" for factor in factors for suffix in (".pdf", ".png", ".csv")),
    ]
