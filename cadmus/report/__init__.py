"""The report of a dataset: what it contains as text and figures, and its dataset card."""

FIGURES = ("acceptance", "lengths", "values", "instructions")
"""Figures of the report, in order; functions of :mod:`cadmus.report.plots`."""
CROISSANT = "croissant.json"
"""Metadata beside the card, see :mod:`cadmus.report.croissant`."""
