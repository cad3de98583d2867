"""Run the workflow on a SLURM cluster of this machine (`make slurm-test`), as root on Debian or Ubuntu.

The config tests/slurm.yaml runs once locally and once through workflow/profiles/slurm. There a job is
canceled, and the training is preempted. The training then runs a third time and reaches its time limit. All
outputs are compared with the local run; the result is a JSON file.
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dev import measure
from dev.measure import Facts, running, wait_for
from dev.slurm_cluster import ask, slurm_cluster
from tests.checkout import copy_checkout, difference, environment_of

PROFILE = "workflow/profiles/slurm"
RESULTS = Path("results/slurm")
# Poll more often than on a shared cluster.
CLUSTER = ("--profile", PROFILE, "--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "30")


def main() -> None:
    output = measure.parser(__doc__, output=True).parse_args().output
    # SystemExit stops the cluster.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("slurm-test: stopped by SIGTERM"))
    directory = Path(tempfile.mkdtemp(prefix="slurm-test-"))
    say(f"working in {directory}, which stays after a failure")
    result = run(directory)
    measure.report(result, output)
    if result["different"] or not result["time_limit_same_model"]:
        sys.exit("slurm-test: outputs differ from those of the local run")
    shutil.rmtree(directory)


def say(line: str) -> None:
    print(f"slurm-test: {time.strftime('%H:%M:%S')} {line}", flush=True)


def run(directory: Path) -> Facts:
    """Run the workflow on the cluster and locally, and compare the outputs."""
    local, cluster, again = (copy_checkout(directory / name) for name in ("local", "cluster", "again"))
    started = time.monotonic()
    with slurm_cluster():
        say("cluster run")
        events = disturbed(cluster)
        say("training again")
        shutil.copytree(cluster / RESULTS, again / RESULTS)
        events["time_limit"] = train_beyond_time_limit(again)
    seconds = {"cluster": round(time.monotonic() - started)}
    say("local run")
    started = time.monotonic()
    with snakemake(local, "--cores", "2"):
        pass
    seconds["local"] = round(time.monotonic() - started)
    files, different = difference(local / RESULTS, cluster / RESULTS)
    models = [(place / RESULTS / "model/model.safetensors").read_bytes() for place in (local, again)]
    result = {"slurm": ask("slurmctld", "-V"), "seconds": seconds, **events}
    return {**result, "files": files, "different": different, "time_limit_same_model": models[0] == models[1]}


@contextmanager
def snakemake(directory: Path, *options: str) -> Iterator["Run"]:
    """Run Snakemake on tests/slurm.yaml in a copy of the checkout; it must succeed after the block."""
    environment = environment_of(directory)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = ["snakemake", "--configfile", "tests/tiny.yaml", "tests/slurm.yaml", *options]
    with running(command, directory / "snakemake.log", cwd=directory, env=environment) as process:
        yield Run(directory, process)
        if process.wait(1800):
            raise RuntimeError(f"Snakemake failed: see {directory}/snakemake.log")


class Run(NamedTuple):
    """A run of Snakemake on the cluster."""

    directory: Path
    process: subprocess.Popen[bytes]

    def jobs(self, name: str) -> list[str]:
        """Return the SLURM job ids of a rule or group, in order of submission."""
        log = (self.directory / "snakemake.log").read_text()
        return re.findall(rf"SLURM jobid (\d+) \(log: \S*/(?:rule|group)_{name}/", log)

    def running(self, name: str) -> str:
        """Wait for a running job of a rule or group and return its id."""
        self.wait(lambda: "RUNNING" in map(state, self.jobs(name)), f"a job of {name}")
        return next(job for job in self.jobs(name) if state(job) == "RUNNING")

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait until ``condition()`` is true, while Snakemake runs."""
        wait_for(lambda: self.process.poll() is not None or condition(), what)
        if self.process.poll() is not None:
            raise RuntimeError(f"Snakemake ended before {what}: see {self.directory}/snakemake.log")

    def wait_for_steps(self, more: int) -> None:
        """Wait until the training has made some more steps."""
        path = self.directory / RESULTS / "training/metrics.partial.jsonl"

        def done() -> int:
            return path.read_bytes().count(b"\n") if path.is_file() else 0

        step = done() + more
        self.wait(lambda: done() >= step, f"step {step} of the training")

    def wait_for_resumption(self) -> int:
        """Wait until the training resumes where it stopped; return the step."""
        # Snakemake overwrites the log of the rule, but not that of the job.
        (log,) = (self.directory / ".snakemake/slurm_logs/rule_train").rglob("*.log")

        def steps(event: str) -> list[str]:
            text = log.read_text(encoding="utf-8", errors="replace")
            return re.findall(rf"{event} after step (\d+)", text)

        self.wait(lambda: steps("resuming"), "the training to resume")
        stopped, resumed = steps("stopped by a signal"), steps("resuming")
        say(f"the training stopped after steps {stopped} and resumed after {resumed}")
        if len(stopped) != 1 or stopped != resumed:
            raise RuntimeError(f"stopped after steps {stopped}, resumed after {resumed}: {log}")
        return int(stopped[0])


def disturbed(directory: Path) -> Facts:
    """Run the workflow through the profile, cancel a job of shards, and preempt the training."""
    with snakemake(directory, *CLUSTER) as cluster:
        canceled = cluster.running("shards_shard")
        before = len(cluster.jobs("shards_shard"))
        subprocess.run(["scancel", canceled], check=True)
        say(f"canceled shard job {canceled}")
        cluster.wait(lambda: len(cluster.jobs("shards_shard")) > before, "the job to be submitted again")
        again = cluster.jobs("shards_shard")[-1]

        cluster.wait_for_steps(100)
        (job,) = cluster.jobs("train")
        options = ("--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null")
        urgent = ask("sbatch", *options, "--wrap=sleep 5")
        say(f"job {urgent} preempts training job {job}")
        cluster.wait(lambda: state(urgent) == "COMPLETED", "the job of higher priority")
        preempted = cluster.wait_for_resumption()
    return {
        "canceled": {"job": canceled, "again": again},
        "preempted": {"job": job, "resumed_after_step": preempted},
    }


def train_beyond_time_limit(directory: Path) -> Facts:
    """Train until the time limit of the job and after it."""
    for made in ("model", "training"):
        shutil.rmtree(directory / RESULTS / made)
    # Keep the copied dataset.
    options = ["--rerun-triggers", "input", "--", str(RESULTS / "model/meta.json")]
    with snakemake(directory, *CLUSTER, *options) as cluster:
        job = cluster.running("train")
        cluster.wait_for_steps(100)
        subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=5"], check=True)
        say(f"training job {job} reaches its time limit of five minutes")
        # The job keeps the limit when it restarts.
        cluster.wait(lambda: state(job) == "PENDING", "the training to be requeued")
        subprocess.run(["scontrol", "update", f"jobid={job}", "timelimit=1440"], check=True)
        stopped = cluster.wait_for_resumption()
    return {"job": job, "resumed_after_step": stopped}


def state(job: str) -> str:
    return ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")


if __name__ == "__main__":
    main()
