"""True programs on disk: shards, splits that cannot leak, the manifest, the reader, the report."""

FIGURES = ("acceptance", "lengths", "values", "instructions")
"""The figures of the report, functions of :mod:`cadmus.dataset.pictures`, in the order of the report."""
