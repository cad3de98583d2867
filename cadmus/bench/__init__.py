"""Measurements of speed, each made in the run that reports it: ``programs`` and ``training``."""

Measured = dict[str, int | float]
