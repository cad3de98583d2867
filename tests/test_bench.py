"""``cadmus bench``: what is measured and how it is printed."""

import json

import pytest
from click.testing import CliRunner

from cadmus import bench
from cadmus.cli.bench import bench as command
from cadmus.config import TEMPLATES


@pytest.fixture(autouse=True)
def little(monkeypatch) -> None:
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(bench, "TEMPLATE_PROGRAMS", 200)


def invoke(*arguments: str) -> str:
    return CliRunner().invoke(command, arguments, catch_exceptions=False).stdout


def test_vm_json_has_the_keys_of_its_help() -> None:
    measured, described = json.loads(invoke("vm", "--json")), invoke("vm", "--help")
    assert all(key in described for key in measured)
    assert all(isinstance(value, int | float) for value in measured.values()), "the object is flat"
    for name in ("number", "mixture", "candidates"):
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        assert compiled > reference > 0
        assert measured[f"{name}_ratio"] == pytest.approx(compiled / reference, rel=0.01)
    assert measured["candidates_true_share"] == pytest.approx(0.289, abs=0.005)


def test_vm_prints_a_table_and_the_peers() -> None:
    lines = invoke("vm").splitlines()
    assert lines[0].split() == ["instructions/s", "compiled", "reference", "ratio"]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["number programs", "mixture", "candidates/s"]
    assert sum("measured elsewhere" in line for line in lines) == 2
    assert ["C", "switch", "1.5e+08"] in map(str.split, lines)


def test_templates_json_has_the_keys_of_its_help() -> None:
    measured, described = json.loads(invoke("templates", "--json")), invoke("templates", "--help")
    for template in TEMPLATES:
        assert 0 < measured[f"{template}_kept_per_second"] <= measured[f"{template}_candidates_per_second"]
    assert len(measured) == 2 + 2 * len(TEMPLATES)
    assert all(isinstance(value, int | float) for value in measured.values()), "the object is flat"
    for key in measured:
        generic = "TEMPLATE_" + "_".join(key.split("_")[-3:]) if key.startswith(TEMPLATES) else key
        assert generic in described


def test_templates_prints_a_table_and_the_peers() -> None:
    lines = invoke("templates").splitlines()
    assert lines[0].split() == ["programs/s", "kept", "candidates"]
    assert [line.split()[0] for line in lines[1 : 1 + len(TEMPLATES)]] == list(TEMPLATES)
    assert any(line.startswith("samples/s: measured elsewhere") for line in lines)
