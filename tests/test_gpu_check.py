"""`make gpu-check` without a GPU: its training parts also run on CPUs."""

import json
import subprocess
import sys
import time

import psutil

from tests import gpu_check
from tests.checkout import ROOT
from tests.gpu_check import Part


def test_a_missing_gpu_gives_a_one_line_error(tmp_path):
    for options, wanted in (((), "a GPU"), (("--ranks", "2"), "2 GPUs")):
        command = [
            sys.executable,
            "-m",
            "tests.gpu_check",
            "--output",
            str(tmp_path / "check.json"),
            *options,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr == f"gpu-check: needs {wanted} that PyTorch can use, found 0\n"
        assert not list(tmp_path.iterdir())


def test_other_parts_run_if_a_part_fails_or_hangs(tmp_path, monkeypatch, capsys):
    """The part processes are replaced by ones with the parts below."""
    module = tmp_path / "parts.py"
    module.write_text(
        "import sys, time\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests import gpu_check\n"
        "from tests.gpu_check import Failed, Part\n"
        "def good(directory, ranks): return {'ranks': ranks}, 'all well'\n"
        "def wrong(directory, ranks): raise Failed('3 are not 4')\n"
        "def broken(directory, ranks): raise RuntimeError('CUDA error: no kernel image')\n"
        "def hangs(directory, ranks):\n"
        "    from cadmus.train.ranks import run_ranks\n"
        f"    run_ranks(['sh', '-c', 'echo $$$$ > {tmp_path}/rank-$RANK; exec sleep 60'], 2)\n"
        "gpu_check.ONE_GPU = tuple(Part(f.__name__, 2, f) for f in (wrong, broken, hangs, good))\n"
        "gpu_check.main()\n"
    )
    parts = [Part(name, 20, lambda directory, ranks: ({}, "")) for name in ("wrong", "broken", "good")]
    parts.insert(2, Part("hangs", 15, lambda directory, ranks: ({}, "")))
    popen = subprocess.Popen

    def started(command, **options):
        return popen([sys.executable, str(module), *command[3:]], **options)

    monkeypatch.setattr(subprocess, "Popen", started)
    start = time.monotonic()
    assert not gpu_check.check(tuple(parts), 1, tmp_path / "check.json")
    assert time.monotonic() - start < 55
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["FAILED", "wrong", "3 are not 4"],
        ["FAILED", "broken", "RuntimeError: CUDA error: no kernel image"],
        ["FAILED", "hangs", "took longer than 15 s"],
        ["ok", "good", "all well"],
    ]
    report = json.loads((tmp_path / "check.json").read_text())
    assert report["commit"]
    assert [part["ok"] for part in report["parts"].values()] == [False, False, False, True]
    assert report["parts"]["good"]["ranks"] == 1
    ranks = [int(path.read_text()) for path in tmp_path.glob("rank-*")]
    assert len(ranks) == 2
    deadline = time.monotonic() + 10
    while any(map(runs, ranks)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Tell whether a process runs: a killed one may be left until its parent asks for its status."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_train_steps_measures(tmp_path):
    facts = gpu_check.train_steps(tmp_path / "steps", ROOT / "tests/tiny.yaml", 2, compiled=True)
    assert facts["ranks"] == 2
    assert facts["ms_per_step"] > 0
    assert facts["checkpoint_seconds"] > 0
    assert facts["tflops_per_gpu"] > 0
    assert facts["synchronizations_per_step"] == 0


def test_ranks_agree(tmp_path):
    facts, verdict = gpu_check.ranks_agree(tmp_path, 2)
    assert "losses of 2 ranks are within" in verdict
    assert len(facts["losses"]["all, then one"]) == gpu_check.STEPS
