"""Numerals and answers."""

import numpy as np
import pytest

from cadmus.templates.answers import NUMERAL_MAX, numeral
from cadmus.vm import reference


def test_numerals_have_their_value():
    values = np.array([-NUMERAL_MAX, -30, -1, 0, 9, 10, 11, 20, 99, 100, 101, 110, 729, NUMERAL_MAX])
    texts = numeral(values).to_strings()
    assert [reference.run(text).outputs[0].value for text in texts] == values.tolist()
    with pytest.raises(ValueError, match="range from"):
        numeral(np.array([NUMERAL_MAX + 1]))
