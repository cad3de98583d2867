"""Studies: the results of several runs in one file, and their comparison.

:mod:`cadmus.config.study` expands a config into runs, ``workflow/rules/study.smk`` starts them. All that is
written below the directory of a study comes from the one file of its results.
"""

PAGE = "README.md"
COMPARISON = "comparison.csv"
FIGURE = "variants"
FILES = (PAGE, COMPARISON, f"{FIGURE}.png", f"{FIGURE}.pdf")
"""Files that describe the results of a study."""
