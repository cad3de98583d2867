"""The benchmark of the loader."""

import json

from tests.bench.conftest import invoke, published


def test_batches_measures_the_loader() -> None:
    measured = json.loads(invoke("batches", "--programs", "3000", "--json"))
    assert set(measured) == published("batches")
    assert measured["programs"] == 3_000
    assert 0 < measured["milliseconds"] <= measured["longest_milliseconds"]
