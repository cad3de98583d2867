"""The benchmarks of the VMs and the templates."""

import json

import pytest

from cadmus.bench import programs
from cadmus.config import TEMPLATES
from tests.bench.conftest import invoke, published


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    monkeypatch.setattr(programs, "REPEATS", 1)
    monkeypatch.setattr(programs, "TEMPLATE_PROGRAMS", 200)


def test_vm_measures_both_vms() -> None:
    measured = json.loads(invoke("vm", "--json"))
    assert set(measured) == published("vm")
    for name in ("number", "mixture", "candidates"):
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        assert compiled > reference > 0
        assert measured[f"{name}_ratio"] == pytest.approx(compiled / reference, rel=0.01)
    assert measured["candidates_true_share"] == pytest.approx(0.289, abs=0.005)


def test_templates_measures_each_template() -> None:
    measured = json.loads(invoke("templates", "--json"))
    assert set(measured) == published("templates")
    for template in TEMPLATES:
        assert 0 < measured[f"{template}_kept_per_second"] <= measured[f"{template}_candidates_per_second"]
