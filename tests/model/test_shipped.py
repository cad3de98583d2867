"""The model that comes with the checkout."""

import re

import pytest

from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import read_metadata, weights_digest
from tests.commands import invoke


def test_it_is_small():
    assert sum(path.stat().st_size for path in DEFAULT_MODEL.iterdir()) <= 8_000_000


def test_it_speaks_the_instruction_set_of_the_checkout():
    assert read_metadata(DEFAULT_MODEL).steps > 0


def test_its_card_is_of_these_weights():
    card = (DEFAULT_MODEL / "README.md").read_text()
    assert re.search(r"weights: fp32, SHA-256 `(\w{16})…`", card)[1] == weights_digest(DEFAULT_MODEL)


@pytest.mark.parametrize(
    ("prefix", "completion"),
    [
        ("62*4+54*4-", "=."),
        (r"\41-*;6f44*2+", "=."),
        ("2f5=6ft3+=4f9=", r"\2*1+;."),
        ("81*5+92*3-", "<."),
        ("u1b2b3b$", "6=."),
    ],
)
def test_it_completes_examples_of_the_documents(prefix, completion):
    lines = invoke("complete", prefix).output.splitlines()
    assert lines[1].split() == ["completion", completion]
    assert lines[3].split() == ["result", "true"]
