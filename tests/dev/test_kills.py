"""The killed workflow ends with the files of an undisturbed run."""

import json
import subprocess
import sys

import psutil
import yaml

from cadmus.config import TEMPLATES
from dev.kills import difference, survive
from dev.measure import kill_tree
from tests.checkout import ROOT

KEPT = {"equality"}
"""Templates with training programs; they have four shards."""


def test_the_killed_workflow_ends_with_the_same_files(tmp_path):
    templates = {name: {"train": 0} for name in TEMPLATES if name not in KEPT}
    config = tmp_path / "few.yaml"
    extended = {"extends": str(ROOT / "tests/tiny.yaml"), "name": "few", "dataset": {"templates": templates}}
    config.write_text(yaml.safe_dump(extended))
    record = survive(config, ["results/few/dataset/manifest.json"], 2, 0, tmp_path)
    assert (record["everything"], record["jobs"], record["different"]) == (1, 1, [])
    assert record["files"] > 12


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
    (results / "figures/.tmp-a.csv").touch()
    (results / "figures/a.csv").write_text("2")
    (results / "logs/train.log").unlink()
    changed = ["figures/.tmp-a.csv", "figures/a.csv", "logs/train.log"]
    assert difference(one, other)[1] == [f"results/tiny/{name}" for name in changed]


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
    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    kill_tree(process)
    assert process.returncode == -9
    assert all(not child.is_running() or child.status() == psutil.STATUS_ZOMBIE for child in children)
