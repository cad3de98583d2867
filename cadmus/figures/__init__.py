"""Figures, tables and pages, one module each, drawn from result files alone.

A module defines ``COLUMNS``, the columns of each of its result files, and for a figure ``data``, the rows
drawn, and ``draw``, which returns a Matplotlib figure; for a table ``table``, which returns its rows; for a
page ``page``, which returns its HTML. :func:`cadmus.experiments.figures` lists them with captions.
"""
