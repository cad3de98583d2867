"""A workflow that is interrupted or killed, in a copy of the checkout."""

import fcntl
import json
import os
import shutil
import signal
import sys
from contextlib import contextmanager

import psutil
import pytest

from dev.measure import PATIENCE, kill_tree, running, wait_for
from tests.checkout import FEW, copy_checkout, difference, environment_of, snakemake

CONFIG = f"name: stopped\n{FEW}" + "train: {steps: 120, batch_size: 64, checkpoint_every: 10, ranks: 1}\n"
MANIFEST, MODEL = "results/stopped/dataset/manifest.json", "results/stopped/model/meta.json"
OPTIONS = ("--rerun-incomplete", "--configfile", "stopped.yaml", "--", MODEL)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a copy of the checkout with a finished dataset."""
    checkout = copy_checkout(tmp_path_factory.mktemp("prepared"))
    (checkout / "stopped.yaml").write_text(CONFIG)
    snakemake(checkout, "--", MANIFEST, config="stopped.yaml")
    return checkout


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@contextmanager
def started(checkout, condition, what):
    """Start the workflow in new processes, and wait for a condition while it runs."""
    command, log = [sys.executable, "-m", "snakemake", "--cores", "2", *OPTIONS], checkout / "log"
    with running(command, log, cwd=checkout, env=environment_of(checkout)) as process:
        wait_for(lambda: process.poll() is not None or condition(), what, pause=0.02)
        assert process.poll() is None, log.read_text()
        yield process


def test_an_interrupted_training_resumes(prepared, tmp_path):
    checkout = shutil.copytree(prepared, tmp_path / "checkout")
    stopped = checkout / "results/stopped"
    progress = stopped / "training/metrics.partial.jsonl"
    with started(checkout, lambda: lines(progress) >= 15, "15 steps") as process:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 1
    assert "a checkpoint is saved, and the same command resumes from it" in (checkout / "log").read_text()
    done = len(progress.read_text().splitlines())
    assert 15 <= done < 120
    assert (stopped / f"training/checkpoints/step-{done:08d}").is_dir()
    printed = snakemake(checkout, "--", MODEL, config="stopped.yaml")
    assert f"resuming after step {done}" in printed
    losses = (stopped / "training/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in losses] == list(range(1, 121))
    assert not (stopped / "training/checkpoints").exists()

    # A failed job shows the error of its command, although its output goes through a pipe.
    (stopped / "model/meta.json").write_text("{")
    grid = "results/stopped/experiments/grid.parquet"
    failed = snakemake(checkout, "--", grid, config="stopped.yaml", code=1)
    assert "cadmus: error: results/stopped/model/meta.json: not sealed" in failed
    assert "Missing" not in failed.split("Error in rule experiment")[1]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_stops_two_ranks_with_a_checkpoint_but_not_under_nohup(prepared, tmp_path, ignored):
    checkout = shutil.copytree(prepared, tmp_path / "checkout")
    files = {"dataset": "results/stopped/dataset", "checkpoints": "c", "output": "m", "metrics": "m.jsonl"}
    options = [f"--{name}={path}" for name, path in files.items()]
    nohup = ["nohup"] if ignored else []
    command = [
        *nohup,
        sys.executable,
        "-m",
        "cadmus",
        "train",
        "--config",
        "stopped.yaml",
        "--ranks=2",
        *options,
    ]
    progress = checkout / "m.partial.jsonl"
    with running(command, checkout / "log", cwd=checkout, env=environment_of(checkout)) as process:
        wait_for(lambda: process.poll() is not None or lines(progress) >= 5, "5 steps", pause=0.02)
        os.killpg(process.pid, signal.SIGHUP)
        assert process.wait(PATIENCE) == (0 if ignored else 1), (checkout / "log").read_text()
    assert ("a checkpoint is saved" in (checkout / "log").read_text()) == (not ignored)


def test_a_second_run_in_a_folder_is_refused(prepared):
    with (prepared / ".snakemake/running").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = snakemake(prepared, "--", MODEL, config="stopped.yaml", code=2)
    line = "cadmus: error: another `make run` or snakemake is at work in this folder; wait for it or stop it"
    assert refused.splitlines()[-1] == line
    assert "train" not in refused


def test_a_killed_workflow_ends_with_the_same_files(prepared, tmp_path):
    checkout = shutil.copytree(prepared, tmp_path / "checkout")
    run, undisturbed = checkout / "results/stopped", checkout / "undisturbed"
    (checkout / "stopped.yaml").write_text(CONFIG.replace("steps: 120", "steps: 40"))
    snakemake(checkout, "--", MODEL, config="stopped.yaml")
    run.rename(undisturbed)

    # Snakemake with all its processes.
    with started(checkout, lambda: any(run.glob("dataset/data/*/*.parquet")), "a shard") as process:
        kill_tree(process)
    assert not (checkout / MANIFEST).exists()
    snakemake(checkout, "--rerun-incomplete", "--", MANIFEST, config="stopped.yaml")

    # The process of a job.
    progress = run / "training/metrics.partial.jsonl"
    with started(checkout, lambda: lines(progress) >= 15, "15 steps") as process:
        (training,) = [
            job
            for job in psutil.Process(process.pid).children(recursive=True)
            if {"cadmus", "train"} <= set(job.cmdline()) and job.name().startswith("python")
        ]
        training.kill()
        assert process.wait(PATIENCE) == 1

    printed = snakemake(checkout, "--rerun-incomplete", "--", MODEL, config="stopped.yaml")
    assert "resuming after step 10" in printed
    files, different = difference(undisturbed, run)
    assert (files > 30, different) == (True, [])
