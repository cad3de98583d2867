"""The output of ``cadmus bench``."""

import json

from cadmus.bench import Measured, start
from tests.bench.conftest import invoke


def test_results_are_a_table_or_one_flat_object(monkeypatch) -> None:
    measured = Measured({"repeats": 1_000}, {"fast": {"rate": 2_000, "ratio": 1.5}, "slow": {"rate": 3}})
    monkeypatch.setattr(start, "bench_start", lambda: measured)
    assert [line.split() for line in invoke("start").splitlines()] == [
        ["rate", "ratio"],
        ["fast", "2,000", "1.5"],
        ["slow", "3"],
        [],
        ["setting", "or", "result", "value"],
        ["repeats", "1,000"],
    ]
    expected = {"repeats": 1_000, "fast_rate": 2_000, "fast_ratio": 1.5, "slow_rate": 3}
    assert json.loads(invoke("start", "--json")) == expected
