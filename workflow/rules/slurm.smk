# What a run through workflow/profiles/slurm needs besides the profile.

import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from cadmus.planning.slurm import Demand, check, hints, read_partitions
from cadmus.errors import InputError


def remembered(ask):
    """A function that asks until there is an answer, and gives that from then on."""
    known = None

    def answer():
        nonlocal known
        known = ask() if known is None else known
        return known

    return answer


# The plugin for SLURM (2.8.0) takes squeue where the controller keeps finished jobs long enough, which it asks at each look at
# them. While the controller is away it has no answer and turns to sacct, and without accounting loses all jobs by that.
slurm_plugin = sys.modules.get("snakemake_executor_plugin_slurm")
if slurm_plugin:
    slurm_plugin.get_min_job_age = remembered(slurm_plugin.get_min_job_age)


def demand(job):
    """What a job asks the cluster for."""

    def number(resource):
        asked = job.resources.get(resource)
        # What depends on a file that is not there yet is a text.
        return asked if isinstance(asked, int) else 0

    return Demand(
        job.rule.name,
        partition=str(job.resources.get("slurm_partition") or ""),
        nodes=job.resources.get("nodes") or 1,
        cores=job.threads,
        memory=number("mem_mb"),
        # On several nodes the training asks for GPUs by node, and not by the resource gpu.
        gpus=number("gpu") or number("train_gpus"),
        gpu_model=job.resources.get("gpu_model")
        or job.resources.get("train_gpu_model")
        or "",
        minutes=number("runtime"),
    )


def check_cluster():
    """See that the cluster has what the jobs ask for.

    Raises:
        WorkflowError: it has not; nothing is submitted.
    """
    demands = [demand(job) for job in workflow.dag.needrun_jobs() if not job.is_local]
    # A wrong partition is that of all jobs, unless those with GPUs have their own.
    demands.sort(key=lambda demand: demand.gpus)
    try:
        check(demands, read_partitions())
    except InputError as error:
        raise WorkflowError(str(error)) from None


onstart:
    if workflow.executor_plugin.name == "slurm":
        check_cluster()


onerror:
    if workflow.executor_plugin.name == "slurm":
        for path in log:
            for line in hints(Path(path).read_text(errors="replace")):
                print(f"cadmus: {line}", file=sys.stderr)
