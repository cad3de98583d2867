"""`make gpu-check` without a GPU: its training parts also run on CPUs."""

import json
import subprocess
import sys

import psutil

from dev import gpu_check
from tests.checkout import ROOT


def test_a_missing_gpu_gives_a_one_line_error(tmp_path):
    for options, wanted in (((), "a GPU"), (("--ranks", "2"), "2 GPUs")):
        command = [sys.executable, "-m", "dev.gpu_check", f"--output={tmp_path / 'check.json'}", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr == f"gpu-check: needs {wanted} that PyTorch can use, found 0\n"
        assert not list(tmp_path.iterdir())


def test_other_parts_run_if_a_part_fails_or_hangs(tmp_path, capsys):
    def good(directory, ranks):
        return {"ranks": ranks}, "all well"

    def wrong(directory, ranks):
        raise gpu_check.Failed("3 are not 4")

    def broken(directory, ranks):
        raise RuntimeError("CUDA error: no kernel image")

    def hangs(directory, ranks):
        launch = "from cadmus.train.ranks import run_ranks; import sys; "
        rank = ["sh", "-c", f"echo $$$$ > {tmp_path}/rank-$RANK; exec sleep 60"]
        gpu_check._run([sys.executable, "-c", f"{launch} run_ranks({rank}, 2)"], 15)

    parts = {part.__name__: part for part in (wrong, broken, hangs, good)}
    assert not gpu_check.check(parts, 1, tmp_path / "check.json")
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [*(["FAILED", name] for name in list(parts)[:3]), ["ok", "good"]]
    assert [line[2] for line in lines[:2]] == ["3 are not 4", "RuntimeError: CUDA error: no kernel image"]
    assert lines[2][2].endswith("took longer than 15 s")
    report = json.loads((tmp_path / "check.json").read_text())
    assert report["commit"]
    assert [part["ok"] for part in report["parts"].values()] == [False, False, False, True]
    ranks = [int(path.read_text()) for path in tmp_path.glob("rank-*")]
    assert len(ranks) == 2
    assert not any(map(psutil.pid_exists, ranks))


def test_train_steps_measures(tmp_path):
    facts = gpu_check.train_steps(tmp_path, ROOT / "tests/tiny.yaml", 2)
    assert facts["ranks"] == 2
    assert facts["ms_per_step"] > 0
    assert facts["checkpoint_seconds"] > 0
    assert facts["tflops_per_gpu"] > 0
    assert facts["synchronizations_per_step"] == 0


def test_ranks_agree(tmp_path):
    facts, verdict = gpu_check.ranks_agree(tmp_path, 2)
    assert "losses of 2 ranks are within" in verdict
    assert len(facts["losses"]["all, then one"]) == gpu_check.STEPS
