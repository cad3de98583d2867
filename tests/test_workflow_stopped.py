"""A training of the workflow that Ctrl-C interrupts, in a copy of the checkout."""

import json
import os
import signal
import subprocess
import sys

from dev.measure import PATIENCE, running, wait_for
from tests.checkout import FEW, copy_checkout

CONFIG = f"name: stopped\n{FEW}" + "train: {steps: 120, batch_size: 64, checkpoint_every: 10, ranks: 1}\n"


def test_an_interrupted_training_resumes(tmp_path):
    checkout = copy_checkout(tmp_path)
    stopped = checkout / "results/stopped"
    (checkout / "stopped.yaml").write_text(CONFIG)
    command = [
        *(sys.executable, "-m", "snakemake", "--cores", "2", "results/stopped/model/meta.json"),
        *("--configfile", "stopped.yaml"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    progress = stopped / "training/metrics.partial.jsonl"

    def steps() -> int:
        return progress.read_bytes().count(b"\n") if progress.exists() else 0

    log = tmp_path / "log"
    with running(command, log, cwd=checkout, env=environment) as process:
        wait_for(lambda: process.poll() is not None or steps() >= 15, "15 steps", pause=0.02)
        assert process.poll() is None, log.read_text()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 1
    assert "a checkpoint is saved, and the same command resumes from it" in log.read_text()
    done = len(progress.read_text().splitlines())
    assert 15 <= done < 120
    assert (stopped / f"training/checkpoints/step-{done:08d}").is_dir()
    again = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert f"resuming after step {done}" in again.stdout
    lines = (stopped / "training/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, 121))
    assert not (stopped / "training/checkpoints").exists()

    # A failed job shows the error of its command, although its output goes through a pipe.
    (stopped / "model/meta.json").write_text("{")
    command[command.index("results/stopped/model/meta.json")] = "results/stopped/experiments/grid.parquet"
    failed = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "cadmus: error: results/stopped/model/meta.json: not sealed" in failed.stderr
    assert "Missing" not in failed.stderr.split("Error in rule experiment")[1]
