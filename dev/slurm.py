"""Run the workflow on a SLURM cluster of this machine (`make slurm-test`), as root on Debian or Ubuntu.

The config tests/slurm.yaml runs once locally and once through workflow/profiles/slurm. There a job is
cancelled, the training is preempted and reaches its time limit, and the controller is down for a while. The
training then runs a third time, on two nodes, and is interrupted. All outputs are compared with the local
run; the result is a JSON file.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dev import measure
from dev.kills import difference
from dev.measure import Facts, kill_tree
from dev.slurm_cluster import SlurmCluster, ask, wait_for
from tests.checkout import copy_checkout, environment_of

CONFIGS = ("tests/tiny.yaml", "tests/slurm.yaml")
"""Config files; the second overrides fields of the first."""
PROFILE = "workflow/profiles/slurm"
RESULTS = Path("results/slurm")
# Poll more often than on a shared cluster.
CLUSTER = ("--profile", PROFILE, "--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "30")
AWAY_SECONDS = 25
"""Downtime of the controller, longer than a status query retries."""


def main() -> None:
    output = measure.parser(__doc__).parse_args().output
    # SystemExit stops the cluster.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("slurm-test: stopped by SIGTERM"))
    directory = Path(tempfile.mkdtemp(prefix="slurm-test-"))
    say(f"working in {directory}, which stays after a failure")
    result = run(directory)
    measure.report(result, output)
    if result["different"] or not result["two_nodes_same_model"]:
        sys.exit("slurm-test: outputs differ from those of the local run")
    shutil.rmtree(directory)


def run(directory: Path) -> Facts:
    """Run the workflow locally and on the cluster, and compare the outputs."""
    started = time.monotonic()
    local, cluster, nodes = (copy_checkout(directory / name) for name in ("local", "cluster", "nodes"))
    with SlurmCluster() as slurm:
        say("cluster run")
        events = disturbed(slurm, cluster)
        say("training on two nodes")
        shutil.copytree(cluster / RESULTS, nodes / RESULTS)
        events["two_nodes"] = train_on_two_nodes(nodes)
    seconds = {"cluster": round(time.monotonic() - started)}
    say("local run")
    started = time.monotonic()
    with Snakemake(local, "--cores", "2") as snakemake:
        snakemake.finish(1800)
    seconds["local"] = round(time.monotonic() - started)
    files, different = difference(local / RESULTS, cluster / RESULTS)
    models = [(place / RESULTS / "model/model.safetensors").read_bytes() for place in (local, nodes)]
    result = {"slurm": ask("slurmctld", "-V"), "seconds": seconds, **events}
    return {**result, "files": files, "different": different, "two_nodes_same_model": models[0] == models[1]}


def say(line: str) -> None:
    print(f"slurm-test: {time.strftime('%H:%M:%S')} {line}", flush=True)


class Snakemake:
    """Process of Snakemake on :data:`CONFIGS` in a copy of the checkout, with its output in a file."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory, self.log = directory, directory / "snakemake.log"
        environment = environment_of(directory)
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                ["snakemake", "--configfile", *CONFIGS, *options],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> "Snakemake":
        return self

    def __exit__(self, *error: object) -> None:
        kill_tree(self.process)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def jobs(self, name: str) -> list[str]:
        """Return the SLURM job ids of a rule or group, in order of submission."""
        return re.findall(rf"SLURM jobid (\d+) \(log: \S*/(?:rule|group)_{name}/", self.text())

    def running(self, name: str, seconds: float) -> str:
        """Wait for a running job of a rule or group and return its id."""

        def found() -> list[str]:
            return [job for job in self.jobs(name) if state(job) == "RUNNING"]

        self.wait(found, seconds, f"a job of {name}")
        return found()[0]

    def finish(self, seconds: float) -> None:
        if self.process.wait(seconds):
            raise RuntimeError(f"Snakemake failed: {self.log}\n{self.text()[-4000:]}")

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> None:
        """Wait until ``condition()`` is true, while Snakemake runs."""

        def met() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"Snakemake ended before {what}: {self.log}\n{self.text()[-4000:]}")
            return bool(condition())

        wait_for(met, seconds, what)

    def wait_for_steps(self, more: int) -> None:
        """Wait until the training has made some more steps."""
        path = self.directory / RESULTS / "training/metrics.partial.jsonl"

        def last() -> int:
            lines = path.read_text().splitlines() if path.is_file() else []
            steps = [json.loads(line)["step"] for line in lines if line.endswith("}")]
            return steps[-1] if steps else 0

        step = last() + more
        self.wait(lambda: last() >= step, 600, f"step {step} of the training")

    def wait_for_resumption(self, times: int) -> Facts:
        """Wait until the training resumes for the ``times``-th time, where it stopped; return the steps."""
        # Snakemake overwrites the log of the rule, but not that of the job.
        (log,) = (self.directory / ".snakemake/slurm_logs/rule_train").rglob("*.log")

        def found(text: str) -> list[str]:
            return re.findall(text, log.read_text(encoding="utf-8", errors="replace"))

        resuming = r"resuming after step (\d+)"
        self.wait(lambda: len(found(resuming)) == times, 300, "the training to resume")
        stopped, resumed = found(r"stopped by a signal after step (\d+)"), found(resuming)
        say(f"the training stopped after step {stopped[-1]} and resumed after step {resumed[-1]}")
        if stopped != resumed or len(found("put back in the queue")) != times:
            raise RuntimeError(f"stopped after steps {stopped}, resumed after {resumed}: {log}")
        return {"stopped_after_step": int(stopped[-1]), "resumed_after_step": int(resumed[-1])}


def disturbed(slurm: SlurmCluster, directory: Path) -> Facts:
    """Run the workflow through the profile, with disturbances."""
    started = time.monotonic()
    with Snakemake(directory, *CLUSTER) as snakemake:
        events = {
            "cancelled": cancel_a_job(snakemake),
            "preempted": preempt_the_training(snakemake),
            "time_limit": reach_the_time_limit(snakemake),
            "controller_away_seconds": AWAY_SECONDS,
        }
        snakemake.running("experiment", 600)
        say("the controller is down")
        slurm.stop_controller()
        time.sleep(AWAY_SECONDS)
        slurm.start_controller()
        say("the controller is up again")
        snakemake.finish(1800)
        jobs = set(re.findall(r"SLURM jobid (\d+)", snakemake.text()))
    return {"run_seconds": round(time.monotonic() - started), "jobs": len(jobs), **events}


def cancel_a_job(snakemake: Snakemake) -> Facts:
    """Cancel a job of shards; Snakemake submits it again."""
    job = snakemake.running("shards_shard", 120)
    before = len(snakemake.jobs("shards_shard"))
    subprocess.run(["scancel", job], check=True)
    say(f"cancelled shard job {job}")
    snakemake.wait(lambda: len(snakemake.jobs("shards_shard")) > before, 300, "the job to be submitted again")
    return {"job": job, "again": snakemake.jobs("shards_shard")[-1]}


def preempt_the_training(snakemake: Snakemake) -> Facts:
    """Run a job of higher priority on all nodes; the training saves a checkpoint and resumes after it."""
    snakemake.wait_for_steps(100)
    (job,) = snakemake.jobs("train")
    options = ("--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null")
    urgent = ask("sbatch", *options, "--wrap=sleep 5")
    say(f"job {urgent} preempts training job {job}")
    snakemake.wait(lambda: state(urgent) == "COMPLETED", 300, "the job of higher priority")
    return {"job": job, **snakemake.wait_for_resumption(1)}


def reach_the_time_limit(snakemake: Snakemake) -> Facts:
    """Lower the time limit to five minutes; the training saves a checkpoint and resumes."""
    (job,) = snakemake.jobs("train")
    snakemake.wait_for_steps(100)
    subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=5"], check=True)
    say(f"training job {job} reaches its time limit")
    # The job keeps the limit when it restarts.
    snakemake.wait(lambda: state(job) == "PENDING", 120, "the training to be requeued")
    subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=1440"], check=True)
    return {"job": job, **snakemake.wait_for_resumption(2)}


def train_on_two_nodes(directory: Path) -> Facts:
    """Train on two nodes with one rank each, set in the profile, and interrupt the training once."""
    profile = directory / PROFILE / "config.yaml"
    changed = profile.read_text().replace("train_nodes: 1\n", "train_nodes: 2\n")
    # Both nodes are this machine. Each rank gets one core, as in the local run.
    profile.write_text(changed.replace("  manifest: 8\n", "  manifest: 8\n  train: 1\n"))
    for made in ("model", "training"):
        shutil.rmtree(directory / RESULTS / made)
    (directory / RESULTS / "logs/train.log").unlink()
    started = time.monotonic()
    # Keep the copied dataset.
    options = ["--rerun-triggers", "input", "--", str(RESULTS / "model/meta.json")]
    with Snakemake(directory, *CLUSTER, *options) as snakemake:
        job = snakemake.running("train", 120)
        nodes = ask("squeue", "--noheader", "--format=%D %N", f"--jobs={job}")
        snakemake.wait_for_steps(100)
        subprocess.run(["scancel", "--signal=TERM", job], check=True)
        say(f"interrupted training job {job} on two nodes")
        stopped = snakemake.wait_for_resumption(1)
        snakemake.finish(900)
    if nodes != "2 node[1-2]":
        raise RuntimeError(f"the training ran on {nodes}")
    return {"job": job, "nodes": nodes, "seconds": round(time.monotonic() - started), **stopped}


def state(job: str) -> str:
    return ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")


if __name__ == "__main__":
    main()
