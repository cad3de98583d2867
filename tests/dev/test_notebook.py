"""docs/notebook.ipynb runs and its outputs are current."""

import re

import nbformat
import pytest

from dev.notebook import NOTEBOOK, executed

POINTS = 2
"""Difference between CPUs, in percentage points."""


def texts(notebook):
    return ["".join(output.get("text", "") for output in cell.get("outputs", [])) for cell in notebook.cells]


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_notebook_is_short():
    assert len(nbformat.read(NOTEBOOK, as_version=4).cells) <= 20


def test_outputs_are_current(tmp_path):
    stored, made = nbformat.read(NOTEBOOK, as_version=4), executed(tmp_path, times=2)
    count = len(stored.cells)
    # A cell that runs again gives the same.
    first, made.cells = made.cells[:count], made.cells[count:]
    assert [cell.get("outputs") for cell in first] == [cell.get("outputs") for cell in made.cells]
    for old, new in zip(texts(stored), texts(made), strict=True):
        # Alternating: text, percentage.
        old, new = (re.split(r" *(\d+)%", text) for text in (old, new))
        assert new[::2] == old[::2], "run `make notebook`"
        assert [int(share) for share in new[1::2]] == pytest.approx(
            [int(share) for share in old[1::2]], abs=POINTS
        )
    assert pictures(made) == pictures(stored) == 1
