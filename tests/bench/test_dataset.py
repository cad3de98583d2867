"""The benchmark of a whole dataset."""

import json
from pathlib import Path

import pytest

from cadmus.bench import dataset
from cadmus.errors import InputError
from tests.bench.conftest import invoke, published


@pytest.fixture
def fixed_times(monkeypatch):
    """Processes with fixed CPU seconds."""

    def seconds(*arguments):
        if "manifest" in arguments:
            return 12.0
        if "-c" in arguments:
            return 5.0
        return 10.0 if "train" in arguments else 2.0

    monkeypatch.setattr(dataset, "_seconds", seconds)


def test_rates_exclude_the_start(fixed_times) -> None:
    measured = json.loads(invoke("dataset", "--config", "tests/tiny.yaml", "--json"))
    assert (measured["start_seconds"], measured["start_torch_seconds"]) == (2, 5)
    # 800 programs in two shards and 300 in one; each shard takes 8 seconds after its start.
    assert measured["equality_per_second"] == 800 / 16
    assert measured["subroutines_per_second"] == round(300 / 8)
    assert measured["programs"] == 4_100 + 9 * 100
    assert measured["manifest_per_second"] == 5_000 / 10
    # Three templates have more than 600 programs for training.
    assert measured["seconds"] == 12 * 10 + 18 * 2 + 12
    assert set(measured) == published("dataset")


def test_a_dataset_too_small_to_measure_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(dataset, "_seconds", lambda *arguments: 2.0)
    with pytest.raises(InputError, match="measure a larger config"):
        dataset.bench_dataset(Path("tests/tiny.yaml"))


def test_a_failed_process_is_one_line() -> None:
    with pytest.raises(InputError, match="no such thing"):
        dataset._seconds("-c", "raise SystemExit('no such thing')")
    assert 0 < dataset._seconds("-c", "pass") < 5
