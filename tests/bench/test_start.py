"""The benchmark of the start-up time."""

import json

import pytest

from cadmus.bench import start
from cadmus.errors import Defect
from tests.bench.conftest import invoke, published


def test_start_measures_each_process(monkeypatch) -> None:
    monkeypatch.setattr(start, "REPEATS", 1)
    measured = json.loads(invoke("start", "--json"))
    assert set(measured) == published("start")
    assert all(0 < measured[f"{name}_seconds"] < 10 for name in start.PROCESSES)


def test_a_failed_process_is_a_defect(monkeypatch) -> None:
    monkeypatch.setitem(start.PROCESSES, "run", ("-c", "raise SystemExit('no such thing')"))
    with pytest.raises(Defect, match="no such thing"):
        start.bench_start()
