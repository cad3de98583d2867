"""SLURM as a training sees it: the nodes of its job step, and requeueing its job.

Outside a job there is one node and no queue.
"""

import os
import subprocess
from typing import NamedTuple

FIRST_PORT, PORTS = 20_000, 10_000
"""Range of the port that the nodes of a job meet at, chosen by the job's number."""


class Nodes(NamedTuple):
    """The nodes that ``srun`` started this command on, once on each.

    Attributes:
        size: number of nodes.
        rank: index of this node.
        endpoint: host and port of the first node.
        job: number of the job.
    """

    size: int
    rank: int
    endpoint: str
    job: str


def nodes() -> Nodes | None:
    """Return the nodes of this job step, or None if it has one node or there is no step."""
    variables = os.environ
    count = int(variables.get("SLURM_STEP_NUM_NODES", 1))
    if count == 1:
        return None
    job = variables["SLURM_JOB_ID"]
    # srun runs in the job's script, on the first node; its address needs no name service.
    host = variables["SLURM_LAUNCH_NODE_IPADDR"]
    port = FIRST_PORT + int(job) % PORTS
    return Nodes(count, int(variables["SLURM_NODEID"]), f"{host}:{port}", job)


def requeue() -> str | None:
    """Put this job back in the queue, which ends it; SLURM restarts it with the same number.

    A job that was cancelled or reached its time limit also receives SIGTERM, but stays ended.

    Returns:
        The reason why the job was not requeued, or None.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return "this is not a SLURM job"
    try:
        state = _output("squeue", "--noheader", "--format=%T", f"--jobs={job}")
        if state != "RUNNING":
            return f"job {job} is {state}"
        _output("scontrol", "requeue", job)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"
    return None


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
