"""Figures and tables, one module each, drawn from result files alone.

A figure has ``data``, which returns the plotted rows, and ``draw``, which returns a Matplotlib figure; a
table has ``table``, which returns its rows.
:func:`cadmus.experiments.figures` lists them with captions.
"""
