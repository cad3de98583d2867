"""A workflow that is interrupted or killed, in a copy of the checkout."""

import json
import os
import shutil
import signal
import subprocess
import sys

import psutil

from dev.measure import PATIENCE, kill_tree, running, wait_for
from tests.checkout import FEW, copy_checkout, difference, environment_of, snakemake

CONFIG = f"name: stopped\n{FEW}" + "train: {steps: 120, batch_size: 64, checkpoint_every: 10, ranks: 1}\n"


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_an_interrupted_training_resumes(tmp_path):
    checkout = copy_checkout(tmp_path)
    stopped = checkout / "results/stopped"
    (checkout / "stopped.yaml").write_text(CONFIG)
    command = [
        *(sys.executable, "-m", "snakemake", "--cores", "2", "results/stopped/model/meta.json"),
        *("--configfile", "stopped.yaml"),
    ]
    environment = environment_of(checkout)
    progress = stopped / "training/metrics.partial.jsonl"
    log = tmp_path / "log"
    with running(command, log, cwd=checkout, env=environment) as process:
        wait_for(lambda: process.poll() is not None or lines(progress) >= 15, "15 steps", pause=0.02)
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
    losses = (stopped / "training/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in losses] == list(range(1, 121))
    assert not (stopped / "training/checkpoints").exists()

    # A failed job shows the error of its command, although its output goes through a pipe.
    (stopped / "model/meta.json").write_text("{")
    command[command.index("results/stopped/model/meta.json")] = "results/stopped/experiments/grid.parquet"
    failed = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "cadmus: error: results/stopped/model/meta.json: not sealed" in failed.stderr
    assert "Missing" not in failed.stderr.split("Error in rule experiment")[1]


def test_a_killed_workflow_ends_with_the_same_files(tmp_path):
    checkout = copy_checkout(tmp_path)
    run, undisturbed = checkout / "results/stopped", checkout / "undisturbed"
    (checkout / "stopped.yaml").write_text(CONFIG.replace("steps: 120", "steps: 40"))
    arguments = ["--rerun-incomplete", "--", "results/stopped/model/meta.json"]
    snakemake(checkout, *arguments, config="stopped.yaml")
    run.rename(undisturbed)
    command = [
        *(sys.executable, "-m", "snakemake", "--cores", "2", "--configfile", "stopped.yaml"),
        *arguments,
    ]
    started = {"log": tmp_path / "log", "cwd": checkout, "env": environment_of(checkout)}

    # Snakemake with all its processes.
    with running(command, **started) as process:
        wait_for(lambda: process.poll() is not None or any(run.glob("dataset/*/*.parquet")), "a shard", 0.02)
        assert process.poll() is None, started["log"].read_text()
        kill_tree(process)
    assert not (run / "dataset/manifest.json").exists()
    shutil.rmtree(checkout / ".snakemake/locks")

    # The process of a job.
    progress = run / "training/metrics.partial.jsonl"
    with running(command, **started) as process:
        wait_for(lambda: process.poll() is not None or lines(progress) >= 15, "15 steps", 0.02)
        assert process.poll() is None, started["log"].read_text()
        (training,) = [
            job
            for job in psutil.Process(process.pid).children(recursive=True)
            if {"cadmus", "train"} <= set(job.cmdline()) and job.name().startswith("python")
        ]
        training.kill()
        assert process.wait(PATIENCE) == 1

    assert "resuming after step 10" in snakemake(checkout, *arguments, config="stopped.yaml")
    files, different = difference(undisturbed, run)
    assert (files > 30, different) == (True, [])
