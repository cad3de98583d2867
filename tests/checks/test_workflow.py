"""``cadmus kills --workflow``: the killed workflow ends with the files of an undisturbed run."""

import json
import os
import subprocess
import sys

import yaml
from click.testing import CliRunner

from cadmus.checks.workflow import difference, kill_tree
from cadmus.cli.main import cadmus
from cadmus.common.interrupts import descendants, process_state
from cadmus.config import TEMPLATES
from tests.checkout import ROOT

MANIFEST = "results/few/dataset/manifest.json"
KEPT = {"equality", "less_greater"}
"""Templates with training programs; they have seven shards."""


def test_the_killed_workflow_ends_with_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    config = tmp_path / "few.yaml"
    templates = {name: {"train": 0} for name in TEMPLATES if name not in KEPT}
    extended = {"extends": str(ROOT / "tests/tiny.yaml"), "name": "few", "dataset": {"templates": templates}}
    config.write_text(yaml.safe_dump(extended))
    arguments = ["--workflow", str(config), "--target", MANIFEST, "--kills", "2"]
    output = tmp_path / "kills.json"
    result = CliRunner().invoke(
        cadmus, ["kills", *arguments, "--output", str(output)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert "2 kills in " in result.output
    record = json.loads(output.read_text())
    assert (record["everything"], record["jobs"], record["different"]) == (1, 1, [])
    assert record["files"] > 20


def test_differences_are_found_times_aside(tmp_path):
    for number, name in enumerate(("one", "other")):
        results = tmp_path / name / "results/tiny"
        for folder in ("logs", "model", "figures"):
            (results / folder).mkdir(parents=True)
        (results / "logs/train.log").write_text(str(number))
        (results / "model/meta.json").write_text(json.dumps({"steps": 3, "seconds": number}))
        (results / "metrics.jsonl").write_text(json.dumps({"loss": 1, "tokens_per_second": number}))
        (results / "model/README.md").write_text(f"{number + 1:,} s on a CPU, {number}e+09 FLOP/s")
        (results / "figures/a.csv").write_text("1")
    one, other = tmp_path / "one", tmp_path / "other"
    assert difference(one, other) == (5, [])
    results = other / "results/tiny"
    (results / "figures/.a.csv.0123456789ab-1-1-0.csv").touch()
    (results / "figures/a.csv").write_text("2")
    (results / "logs/train.log").unlink()
    _, different = difference(one, other)
    leftover = "results/tiny/figures/.a.csv.0123456789ab-1-1-0.csv"
    assert different == [leftover, "results/tiny/figures/a.csv", "results/tiny/logs/train.log"]


def test_the_whole_tree_is_killed():
    # One process of the session, and one that leads its own.
    code = (
        "import subprocess, time\n"
        "subprocess.Popen(['sleep', '1000'])\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print(flush=True)\n"
        "time.sleep(1000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    process.stdout.close()
    children = descendants(process.pid)
    assert len(children) == 2
    kill_tree(process)
    assert process.returncode == -9
    for pid in children:
        state = process_state(pid)
        assert state is None or state[0] in "ZX"
    assert os.getpid() not in children
