"""``cadmus bench``: what is measured and how it is printed."""

import json

import pytest
from click.testing import CliRunner

from cadmus import bench
from cadmus.cli.bench import bench as command


@pytest.fixture
def one_repeat(monkeypatch) -> None:
    monkeypatch.setattr(bench, "REPEATS", 1)


def test_vm_json_has_the_keys_of_its_help(one_repeat) -> None:
    runner = CliRunner()
    measured = json.loads(runner.invoke(command, ["vm", "--json"], catch_exceptions=False).stdout)
    described = runner.invoke(command, ["vm", "--help"]).stdout
    assert all(key in described for key in measured)
    for name in ("number", "mixture"):
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        assert compiled > reference > 0
        assert measured[f"{name}_ratio"] == pytest.approx(compiled / reference, rel=0.01)


def test_vm_prints_a_table(one_repeat) -> None:
    lines = CliRunner().invoke(command, ["vm"], catch_exceptions=False).stdout.splitlines()
    assert lines[0].split() == ["instructions/s", "compiled", "reference", "ratio"]
    assert [line.split("  ")[0] for line in lines[1:3]] == ["number programs", "mixture"]
