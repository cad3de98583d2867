"""``cadmus kills``: killed training runs end like an uninterrupted one, and differences are found."""

import json
import random
from collections import Counter

import pytest
from click.testing import CliRunner

from cadmus.checks import kills
from cadmus.cli.main import cadmus
from cadmus.errors import Interrupted
from cadmus.model import WEIGHTS


def test_killed_runs_end_with_the_same_weights(tmp_path):
    killed = []
    survival = kills.survive(3, 1, tmp_path, lambda: killed.append(1))
    assert survival.different == ""
    assert survival.phases.total() == len(killed) == 3
    assert set(survival.phases) <= set(kills.PHASES)


def test_different_weights_or_losses_are_found(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / WEIGHTS).write_bytes(bytes(100))
        records = [{"step": step, "loss": 1 / step, "seconds": random.random()} for step in (1, 2)]
        lines = (json.dumps(record) + "\n" for record in records)
        (tmp_path / name / "metrics.jsonl").write_text("".join(lines))
    assert kills.difference(tmp_path / "one", tmp_path / "other") == ""
    (tmp_path / "other" / "model" / WEIGHTS).write_bytes(bytes(99) + b"\x01")
    assert kills.difference(tmp_path / "one", tmp_path / "other") == "the weights"
    metrics = tmp_path / "other" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"loss": ', '"loss": 1'))
    assert kills.difference(tmp_path / "one", tmp_path / "other") == "the losses"


@pytest.mark.parametrize(
    ("different", "code", "said"),
    [
        ("", 0, "every run are bit-identical to those"),
        ("the weights", 1, "the weights of the last run differ"),
    ],
)
def test_command_reports_kills_and_differences(monkeypatch, different, code, said):
    def survive(count, seed, directory, done):
        assert (count, seed) == (3, 7)
        for _ in range(count):
            done()
        return kills.Survival(Counter({"starting": 2, "exporting": 1}), 4, different)

    monkeypatch.setattr(kills, "survive", survive)
    result = CliRunner().invoke(cadmus, ["kills", "--kills", "3", "--seed", "7"])
    assert result.exit_code == code
    assert "3 kills in 4 runs" in result.output
    assert (
        "2 while starting, 0 while training, 0 while writing a checkpoint, 1 while exporting" in result.output
    )
    assert said in result.output


def test_command_can_be_interrupted(monkeypatch):
    def survive(count, seed, directory, done):
        done()
        raise KeyboardInterrupt

    monkeypatch.setattr(kills, "survive", survive)
    with pytest.raises(Interrupted, match="interrupted after 1 of 3 kills"):
        CliRunner().invoke(cadmus, ["kills", "--kills", "3"], catch_exceptions=False)
