"""Measurements of speed, each made in the run that reports it: ``programs``, ``training``, ``decoding``,
``probing``, ``start``."""

Measured = dict[str, int | float]
