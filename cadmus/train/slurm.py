"""What a training has to do with SLURM: the nodes of its job step, and its place in the queue.

Outside a job there is one node and no queue.
"""

import os
import subprocess
from typing import NamedTuple

FIRST_PORT, PORTS = 20_000, 10_000
"""The range that the port of a job is taken from, one port for each job number."""


class Nodes(NamedTuple):
    """The nodes that ``srun`` started this command on, once on each.

    Attributes:
        size: how many.
        rank: which of them this is, from 0.
        endpoint: host and port of the first, where they meet.
        job: number of the job.
    """

    size: int
    rank: int
    endpoint: str
    job: str


def nodes() -> Nodes | None:
    """The nodes of this job step, or None if it has one, or there is no step."""
    variables = os.environ
    count = int(variables.get("SLURM_STEP_NUM_NODES", 1))
    if count == 1:
        return None
    job = variables["SLURM_JOB_ID"]
    # srun runs in the script of the job, and that on the first node; the address needs no name service.
    host = variables["SLURM_LAUNCH_NODE_IPADDR"]
    port = FIRST_PORT + int(job) % PORTS
    return Nodes(count, int(variables["SLURM_NODEID"]), f"{host}:{port}", job)


def requeue() -> str | None:
    """Put this job back in the queue, which ends it; what it runs starts again with the same number.

    Nothing is done to a job that somebody cancelled, or that ran out of its time: it is over, and SIGTERM was
    how it heard of that.

    Returns:
        Why the job was not put back, or None.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return "this is no SLURM job"
    try:
        state = _ask("squeue", "--noheader", "--format=%T", f"--jobs={job}")
        if state != "RUNNING":
            return f"job {job} is {state}"
        _ask("scontrol", "requeue", job)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"
    return None


def _ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
