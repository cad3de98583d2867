# Checks and error hints for workflow/profiles/slurm.

import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from cadmus.planning.slurm import Demand, check, hints, read_partitions
from cadmus.errors import InputError


def cached(query):
    """Cache the first result of ``query`` that is not None."""
    result = None

    def answer():
        nonlocal result
        result = query() if result is None else result
        return result

    return answer


# Before each status query, the SLURM plugin (2.8.0) asks the controller for MinJobAge. Without an answer, while the controller
# is down, it falls back from squeue to sacct and, without accounting, loses all jobs.
slurm_plugin = sys.modules.get("snakemake_executor_plugin_slurm")
if slurm_plugin:
    slurm_plugin.get_min_job_age = cached(slurm_plugin.get_min_job_age)


def demand(job):
    """Return the resources of a job."""

    def number(resource):
        value = job.resources.get(resource)
        # A string until the files exist that the resource depends on.
        return value if isinstance(value, int) else 0

    return Demand(
        job.rule.name,
        partition=str(job.resources.get("slurm_partition") or ""),
        nodes=job.resources.get("nodes") or 1,
        cores=job.threads,
        memory=number("mem_mb"),
        # On several nodes, the training requests GPUs per node instead of the resource gpu.
        gpus=number("gpu") or number("train_gpus"),
        gpu_model=job.resources.get("gpu_model")
        or job.resources.get("train_gpu_model")
        or "",
        minutes=number("runtime"),
    )


def check_cluster():
    """Check that the cluster can run all jobs.

    Raises:
        WorkflowError: it cannot run a job; nothing is submitted.
    """
    demands = [demand(job) for job in workflow.dag.needrun_jobs() if not job.is_local]
    # Jobs without GPUs first: their partition is that of all jobs unless gpu_partition is set.
    demands.sort(key=lambda demand: demand.gpus)
    try:
        check(demands, read_partitions())
    except InputError as error:
        raise WorkflowError(str(error)) from None


def print_hints(log):
    for path in log:
        for line in hints(Path(path).read_text(errors="replace")):
            print(f"cadmus: {line}", file=sys.stderr)
