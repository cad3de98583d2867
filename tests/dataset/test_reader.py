"""Reading a split."""

import numpy as np
import pytest

from cadmus.dataset.reader import read_split
from cadmus.errors import InputError


def test_templates_are_selected(dataset):
    table = read_split(dataset, "test", ["equality", "random"])
    assert table.template.tolist() == ["equality"] * 60 + ["random"] * 60
    assert np.array_equal(table.x[:60], table.y[:60])
    assert table.x.mask[60:].all()
    assert table.y[60:].tolist() == [None] * 60
    with pytest.raises(InputError, match="no test programs of nothing"):
        read_split(dataset, "test", ["nothing"])
