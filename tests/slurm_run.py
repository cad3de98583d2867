"""Run the workflow on a SLURM cluster of this machine (`make slurm-test`).

The config tests/slurm.yaml runs once locally and once through workflow/profiles/slurm. There a job is
cancelled, the training is preempted and reaches its time limit, and the controller is down for a while. The
training then runs a third time, on two nodes. A study of two variants with two seeds runs both ways as well.
All outputs are compared with the local run; the result is a JSON file.
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
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.checks.workflow import difference
from cadmus.common.provenance import commit
from tests import measured
from tests.checkout import copy_checkout, environment_of
from tests.slurm_cluster import SlurmCluster, ask, wait_for

CONFIGS = ("tests/tiny.yaml", "tests/slurm.yaml")
"""Config files; the second overrides fields of the first."""
PROFILE = "workflow/profiles/slurm"
RESULTS = Path("results/slurm")
STUDY = """\
extends: tests/tiny.yaml
name: study
study:
  factors: {train.steps: [10, 12]}
  seeds: [0, 1]
"""
"""A study whose trainings take seconds."""
AWAY_SECONDS = 25
"""Downtime of the controller, longer than a status query retries."""


def main() -> None:
    options = measured.parser(__doc__)
    options.add_argument("--keep", action="store_true", help="keep the working directory")
    arguments = options.parse_args()
    # SystemExit stops the cluster.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("slurm-test: stopped by SIGTERM"))
    directory = Path(tempfile.mkdtemp(prefix="slurm-test-"))
    say(f"working in {directory}")
    try:
        result = run(directory)
    except BaseException:
        say(f"failed; see {directory}")
        raise
    measured.report(result, arguments.output)
    if not arguments.keep:
        shutil.rmtree(directory)
    if result["different"] or not result["study"]["same_results"]:
        sys.exit("slurm-test: outputs differ from those of the local run")


def run(directory: Path) -> dict[str, Any]:
    """Run the workflow locally and on the cluster, and compare the outputs."""
    started = time.monotonic()
    local, cluster, nodes = (copy_checkout(directory / name) for name in ("local", "cluster", "nodes"))
    with SlurmCluster() as slurm:
        say("cluster run")
        events = Scenario(slurm, cluster).run()
        say("training on two nodes")
        shutil.copytree(cluster / RESULTS, nodes / RESULTS)
        events |= train_on_two_nodes(slurm, nodes)
        say("overhead of a job")
        events |= {"overhead": overhead(nodes)}
        say("study")
        events |= {"study": study(cluster, local)}
    slurm_seconds = time.monotonic() - started
    say("local run")
    started = time.monotonic()
    with Snakemake(local, "--cores", "2", "--configfile", *CONFIGS) as snakemake:
        snakemake.finish(1800)
    files, different = difference(local / RESULTS, cluster / RESULTS)
    return {
        "commit": commit(),
        "slurm": ask("slurmctld", "-V"),
        "seconds": {"cluster": round(slurm_seconds), "local": round(time.monotonic() - started)},
        **events,
        "files": files,
        "different": different,
        "two_nodes_same_model": same_model(local / RESULTS, nodes / RESULTS),
        "paper_dry_run_seconds": dry_run_seconds(local),
    }


def say(line: str) -> None:
    print(f"slurm-test: {time.strftime('%H:%M:%S')} {line}", flush=True)


class Snakemake:
    """Process of Snakemake with its output in a file."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.log = directory / "snakemake.log"
        environment = environment_of(directory)
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                ["snakemake", *arguments],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> "Snakemake":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def jobs(self, name: str) -> list[str]:
        """Return the SLURM job ids of a rule or group, in order of submission."""
        return re.findall(rf"SLURM jobid (\d+) \(log: \S*/(?:rule|group)_{name}/", self.text())

    def finish(self, seconds: float) -> None:
        """Wait until it ends.

        Raises:
            RuntimeError: Snakemake failed.
        """
        if self.process.wait(seconds):
            raise RuntimeError(f"Snakemake failed: {self.log}\n{self.text()[-4000:]}")

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> None:
        """Wait until ``condition()`` is true, see :func:`wait_for`.

        Raises:
            RuntimeError: Snakemake ended first.
        """

        def met() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"Snakemake ended before {what}: {self.log}\n{self.text()[-4000:]}")
            return bool(condition())

        wait_for(met, seconds, what)


class Scenario:
    """Run of the workflow through the profile, with disturbances."""

    def __init__(self, slurm: SlurmCluster, directory: Path) -> None:
        self.slurm = slurm
        self.directory = directory

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        with Snakemake(self.directory, *cluster_arguments(PROFILE)) as snakemake:
            cancelled = self.cancel_a_job(snakemake)
            preempted = self.preempt_the_training(snakemake)
            limited = self.reach_the_time_limit(snakemake)
            self.restart_the_controller(snakemake)
            snakemake.finish(1800)
            jobs = sorted({int(job) for job in re.findall(r"SLURM jobid (\d+)", snakemake.text())})
        return {
            "run_seconds": round(time.monotonic() - started),
            "jobs": len(jobs),
            "cancelled": cancelled,
            "preempted": preempted,
            "time_limit": limited,
            "controller_away_seconds": AWAY_SECONDS,
        }

    def cancel_a_job(self, snakemake: Snakemake) -> dict[str, Any]:
        """Cancel a job of shards; Snakemake submits it again."""
        snakemake.wait(lambda: running(snakemake.jobs("shards_shard")), 120, "a shard job")
        job = running(snakemake.jobs("shards_shard"))[0]
        before = len(snakemake.jobs("shards_shard"))
        subprocess.run(["scancel", job], check=True)
        say(f"cancelled shard job {job}")
        snakemake.wait(
            lambda: len(snakemake.jobs("shards_shard")) > before, 300, "the job to be submitted again"
        )
        return {"job": job, "again": snakemake.jobs("shards_shard")[-1]}

    def preempt_the_training(self, snakemake: Snakemake) -> dict[str, Any]:
        """Run a job of higher priority on all nodes; the training saves a checkpoint and resumes after it."""
        self.wait_for_steps(snakemake, 100)
        (job,) = snakemake.jobs("train")
        urgent = ask(
            "sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null",
            "--wrap=sleep 5",
        )  # fmt: skip
        say(f"job {urgent} preempts training job {job}")
        snakemake.wait(lambda: state(urgent) == "COMPLETED", 300, "the job of higher priority")
        return {"job": job, **self.wait_for_resumption(snakemake, 1)}

    def reach_the_time_limit(self, snakemake: Snakemake) -> dict[str, Any]:
        """Lower the time limit to five minutes; the training saves a checkpoint and resumes."""
        (job,) = snakemake.jobs("train")
        self.wait_for_steps(snakemake, self.steps()[-1] + 100)
        subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=5"], check=True)
        say(f"training job {job} reaches its time limit")
        # The job keeps the limit when it restarts.
        snakemake.wait(lambda: state(job) == "PENDING", 120, "the training to be requeued")
        subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=1440"], check=True)
        return {"job": job, **self.wait_for_resumption(snakemake, 2)}

    def restart_the_controller(self, snakemake: Snakemake) -> None:
        """Stop and restart the controller while experiments run."""
        snakemake.wait(lambda: running(snakemake.jobs("experiment")), 600, "the experiments")
        say("the controller is down")
        self.slurm.stop_controller()
        time.sleep(AWAY_SECONDS)
        self.slurm.start_controller()
        say("the controller is up again")

    def metrics(self) -> Path:
        return self.directory / RESULTS / "training/metrics.partial.jsonl"

    def steps(self) -> list[int]:
        path = self.metrics()
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line)["step"] for line in lines if line.endswith("}")] or [0]

    def wait_for_steps(self, snakemake: Snakemake, step: int) -> None:
        snakemake.wait(lambda: self.steps()[-1] >= step, 600, f"step {step} of the training")

    def wait_for_resumption(self, snakemake: Snakemake, times: int) -> dict[str, Any]:
        """Wait until the training resumes for the ``times``-th time; return its steps.

        Raises:
            RuntimeError: it resumed after another step than it stopped.
        """
        # Snakemake overwrites the log of the rule, but not that of the job.
        (log,) = (self.directory / ".snakemake/slurm_logs/rule_train").rglob("*.log")

        def found(text: str) -> list[str]:
            return re.findall(text, log.read_text(encoding="utf-8", errors="replace"))

        resuming = r"resuming after step (\d+)"
        snakemake.wait(lambda: len(found(resuming)) == times, 300, "the training to resume")
        stopped, resumed = found(r"stopped by a signal after step (\d+)"), found(resuming)
        say(f"the training stopped after step {stopped[-1]} and resumed after step {resumed[-1]}")
        if stopped != resumed or len(found("put back in the queue")) != times:
            raise RuntimeError(f"stopped after steps {stopped}, resumed after {resumed}: {log}")
        return {"stopped_after_step": int(stopped[-1]), "resumed_after_step": int(resumed[-1])}


def cluster_arguments(profile: str, *configs: str) -> list[str]:
    # Poll more often than on a shared cluster.
    polling = ["--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "30"]
    return ["--profile", profile, "--configfile", *(configs or CONFIGS), *polling]


def study(cluster: Path, local: Path) -> dict[str, Any]:
    """Run :data:`STUDY` on the cluster and locally, and compare the results."""
    name = "study.yaml"
    # A local study gives each training one core, which rounds differently; a job has all of this machine.
    alike = ["--cores", "2", "--set-threads", "train=2", "--configfile", name]
    runs = {cluster: cluster_arguments(PROFILE, name), local: alike}
    tables, trainings, seconds = [], [], []
    for directory, options in runs.items():
        (directory / name).write_text(STUDY)
        started = time.monotonic()
        with Snakemake(directory, *options) as snakemake:
            snakemake.finish(900)
            trainings.append(len(snakemake.jobs("train")))
        seconds.append(round(time.monotonic() - started))
        tables.append(pl.read_parquet(directory / "results/study/study.parquet").drop("seconds"))
    return {
        "trainings_as_jobs": trainings[0],
        "seconds": {"cluster": seconds[0], "local": seconds[1]},
        "same_results": tables[0].equals(tables[1]),
    }


def train_on_two_nodes(slurm: SlurmCluster, directory: Path) -> dict[str, Any]:
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
    with Snakemake(directory, *cluster_arguments(PROFILE), *options) as snakemake:
        snakemake.wait(lambda: running(snakemake.jobs("train")), 120, "the training on two nodes")
        (job,) = snakemake.jobs("train")
        nodes = ask("squeue", "--noheader", "--format=%D %N", f"--jobs={job}")
        scenario = Scenario(slurm, directory)
        scenario.wait_for_steps(snakemake, 100)
        subprocess.run(["scancel", "--signal=TERM", job], check=True)
        say(f"interrupted training job {job} on two nodes")
        stopped = scenario.wait_for_resumption(snakemake, 1)
        snakemake.finish(900)
    if nodes != "2 node[1-2]":
        raise RuntimeError(f"the training ran on {nodes}")
    seconds = round(time.monotonic() - started)
    return {"two_nodes": {"job": job, "nodes": nodes, "seconds": seconds, **stopped}}


def overhead(directory: Path) -> dict[str, float]:
    """Measure the waiting and running time of the manifest job, and the time of its command, in seconds."""
    manifest = str(RESULTS / "dataset/manifest.json")
    options = ["--rerun-triggers", "input", "--force", "--", manifest]
    with Snakemake(directory, *cluster_arguments(PROFILE), *options) as snakemake:
        snakemake.finish(300)
        (job,) = snakemake.jobs("manifest")
    fields = dict(re.findall(r"(\w+Time)=(\S+)", ask("scontrol", "show", "job", job)))
    submitted, began, ended = (
        datetime.fromisoformat(fields[name]).timestamp() for name in ("SubmitTime", "StartTime", "EndTime")
    )
    command = [sys.executable, "-m", "cadmus", "manifest", "--config", RESULTS / "config.yaml"]
    environment = environment_of(directory)
    seconds = []
    # The first process takes longer to start.
    for _ in range(3):
        started = time.monotonic()
        subprocess.run(
            [*command, RESULTS / "dataset"],
            cwd=directory,
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds.append(time.monotonic() - started)
    return {"waiting": began - submitted, "job": ended - began, "command": round(min(seconds), 1)}


def dry_run_seconds(directory: Path) -> float:
    """Measure the seconds of a dry run of the paper's workflow, the minimum of three."""
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        arguments = ["--dry-run", "--cores", "2", "--configfile", "config/paper.yaml"]
        with Snakemake(directory, *arguments) as snakemake:
            snakemake.finish(60)
        seconds.append(time.monotonic() - started)
    return round(min(seconds), 2)


def running(jobs: list[str]) -> list[str]:
    return [job for job in jobs if state(job) == "RUNNING"]


def state(job: str) -> str:
    return ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")


def same_model(local: Path, other: Path) -> bool:
    name = "model/model.safetensors"
    return (local / name).read_bytes() == (other / name).read_bytes()


if __name__ == "__main__":
    main()
