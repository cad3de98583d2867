"""Figures, tables and pages, one module each, drawn from result files alone.

A figure has ``data``, which returns the plotted rows, and ``draw``, which returns a Matplotlib figure; a
table has ``table``, which returns its rows; a page has ``page``, which returns its HTML.
:func:`cadmus.experiments.figures` lists them with captions.
"""
