"""The model that comes with the checkout."""

import re

from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import weights_digest


def test_it_is_small():
    assert sum(path.stat().st_size for path in DEFAULT_MODEL.iterdir()) <= 4_000_000


def test_its_card_is_of_these_weights():
    card = (DEFAULT_MODEL / "README.md").read_text()
    assert re.search(r"weights: bfloat16, SHA-256 `(\w{16})…`", card)[1] == weights_digest(DEFAULT_MODEL)
