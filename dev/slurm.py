"""Run the workflow on a SLURM cluster of this machine (`make slurm-test`), as root on Debian or Ubuntu.

The config tests/slurm.yaml runs once locally and once through workflow/profiles/slurm. There a job is
cancelled, and the training is preempted and reaches its time limit. The training then runs a third time, on
two nodes, and is interrupted. All outputs are compared with the local run; the result is a JSON file.
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
from dev.slurm_cluster import ask, slurm_cluster, wait_for
from tests.checkout import copy_checkout, environment_of

PROFILE = "workflow/profiles/slurm"
RESULTS = Path("results/slurm")
# Poll more often than on a shared cluster.
CLUSTER = ("--profile", PROFILE, "--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "30")


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


def say(line: str) -> None:
    print(f"slurm-test: {time.strftime('%H:%M:%S')} {line}", flush=True)


def run(directory: Path) -> Facts:
    """Run the workflow on the cluster and locally, and compare the outputs."""
    local, cluster, nodes = (copy_checkout(directory / name) for name in ("local", "cluster", "nodes"))
    started = time.monotonic()
    with slurm_cluster():
        say("cluster run")
        events = disturbed(cluster)
        say("training on two nodes")
        shutil.copytree(cluster / RESULTS, nodes / RESULTS)
        events["two_nodes"] = train_on_two_nodes(nodes)
    seconds = {"cluster": round(time.monotonic() - started)}
    say("local run")
    started = time.monotonic()
    with Snakemake(local, "--cores", "2") as snakemake:
        snakemake.finish()
    seconds["local"] = round(time.monotonic() - started)
    files, different = difference(local / RESULTS, cluster / RESULTS)
    models = [(place / RESULTS / "model/model.safetensors").read_bytes() for place in (local, nodes)]
    result = {"slurm": ask("slurmctld", "-V"), "seconds": seconds, **events}
    return {**result, "files": files, "different": different, "two_nodes_same_model": models[0] == models[1]}


class Snakemake:
    """Process of Snakemake on tests/slurm.yaml in a copy of the checkout, with its output in a file."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory, self.log = directory, directory / "snakemake.log"
        environment = environment_of(directory)
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        command = ["snakemake", "--configfile", "tests/tiny.yaml", "tests/slurm.yaml", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> "Snakemake":
        return self

    def __exit__(self, *error: object) -> None:
        kill_tree(self.process)

    def finish(self) -> None:
        if self.process.wait(1800):
            raise RuntimeError(f"Snakemake failed: see {self.log}")

    def jobs(self, name: str) -> list[str]:
        """Return the SLURM job ids of a rule or group, in order of submission."""
        return re.findall(rf"SLURM jobid (\d+) \(log: \S*/(?:rule|group)_{name}/", self.log.read_text())

    def running(self, name: str) -> str:
        """Wait for a running job of a rule or group and return its id."""
        self.wait(lambda: "RUNNING" in map(state, self.jobs(name)), f"a job of {name}")
        return next(job for job in self.jobs(name) if state(job) == "RUNNING")

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until ``condition()`` is true, while Snakemake runs."""

        def met() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"Snakemake ended before {what}: see {self.log}")
            return bool(condition())

        wait_for(met, 600, what)

    def wait_for_steps(self, more: int) -> None:
        """Wait until the training has made some more steps."""
        path = self.directory / RESULTS / "training/metrics.partial.jsonl"

        def last() -> int:
            lines = path.read_text().splitlines() if path.is_file() else []
            return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)

        step = last() + more
        self.wait(lambda: last() >= step, f"step {step} of the training")

    def wait_for_resumption(self, times: int) -> Facts:
        """Wait until the training resumes for the ``times``-th time, where it stopped; return the steps."""
        # Snakemake overwrites the log of the rule, but not that of the job.
        (log,) = (self.directory / ".snakemake/slurm_logs/rule_train").rglob("*.log")

        def found(text: str) -> list[str]:
            return re.findall(text, log.read_text(encoding="utf-8", errors="replace"))

        resuming = r"resuming after step (\d+)"
        self.wait(lambda: len(found(resuming)) == times, "the training to resume")
        stopped, resumed = found(r"stopped by a signal after step (\d+)"), found(resuming)
        say(f"the training stopped after step {stopped[-1]} and resumed after step {resumed[-1]}")
        if stopped != resumed or len(found("put back in the queue")) != times:
            raise RuntimeError(f"stopped after steps {stopped}, resumed after {resumed}: {log}")
        return {"stopped_after_step": int(stopped[-1]), "resumed_after_step": int(resumed[-1])}


def disturbed(directory: Path) -> Facts:
    """Run the workflow through the profile, cancel a job of shards, and stop the training twice."""
    started = time.monotonic()
    with Snakemake(directory, *CLUSTER) as snakemake:
        cancelled = snakemake.running("shards_shard")
        before = len(snakemake.jobs("shards_shard"))
        subprocess.run(["scancel", cancelled], check=True)
        say(f"cancelled shard job {cancelled}")
        snakemake.wait(lambda: len(snakemake.jobs("shards_shard")) > before, "the job to be submitted again")
        again = snakemake.jobs("shards_shard")[-1]

        snakemake.wait_for_steps(100)
        (job,) = snakemake.jobs("train")
        options = ("--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null")
        urgent = ask("sbatch", *options, "--wrap=sleep 5")
        say(f"job {urgent} preempts training job {job}")
        snakemake.wait(lambda: state(urgent) == "COMPLETED", "the job of higher priority")
        preempted = snakemake.wait_for_resumption(1)

        snakemake.wait_for_steps(100)
        subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=5"], check=True)
        say(f"training job {job} reaches its time limit of five minutes")
        # The job keeps the limit when it restarts.
        snakemake.wait(lambda: state(job) == "PENDING", "the training to be requeued")
        subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=1440"], check=True)
        time_limit = snakemake.wait_for_resumption(2)

        snakemake.finish()
        jobs = set(re.findall(r"SLURM jobid (\d+)", snakemake.log.read_text()))
    return {
        "run_seconds": round(time.monotonic() - started),
        "jobs": len(jobs),
        "cancelled": {"job": cancelled, "again": again},
        "preempted": {"job": job, **preempted},
        "time_limit": {"job": job, **time_limit},
    }


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
        job = snakemake.running("train")
        nodes = ask("squeue", "--noheader", "--format=%D %N", f"--jobs={job}")
        snakemake.wait_for_steps(100)
        subprocess.run(["scancel", "--signal=TERM", job], check=True)
        say(f"interrupted training job {job} on two nodes")
        stopped = snakemake.wait_for_resumption(1)
        snakemake.finish()
    if nodes != "2 node[1-2]":
        raise RuntimeError(f"the training ran on {nodes}")
    return {"job": job, "nodes": nodes, "seconds": round(time.monotonic() - started), **stopped}


def state(job: str) -> str:
    return ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")


if __name__ == "__main__":
    main()
