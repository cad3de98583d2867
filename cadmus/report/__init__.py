"""The report on a dataset: its survey, its figures and its pages."""

FIGURES = ("acceptance", "lengths", "values", "instructions")
"""The figures of the report, functions of :mod:`cadmus.report.pictures`, in the order of the report."""
