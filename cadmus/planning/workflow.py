"""Estimates of the whole workflow on a cluster: jobs, core-hours, GPU-hours and disk.

Neither torch nor Snakemake is imported.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from cadmus import experiments
from cadmus.config import TABLES, TEMPLATES, Above0, Config, Section, read_model
from cadmus.dataset import shards
from cadmus.distribution import DATA
from cadmus.errors import InputError
from cadmus.model.flops import block_matrices, parameter_count, training_flops
from cadmus.planning.training import (
    DEVICES,
    Choice,
    Device,
    Plan,
    average_programs,
    compare_counts,
    gpu_count,
    read_gpu,
    training_seconds,
)
from cadmus.train.paths import snapshot_steps

RATES = TABLES / "rates.yaml"
PROFILE = DATA / "workflow" / "profiles" / "slurm" / "config.yaml"
BYTES_FP32 = 4


class Rates(Section):
    """Rates of the jobs.

    Attributes:
        programs_per_second: of one core that samples a template.
        manifest_programs_per_second: of the job that checks the dataset.
        start_seconds, start_torch_seconds: of a process, without and with torch.
        evaluation_fraction, regression_fraction: of a GPU's training rate, reached by evaluation and by the
            regressions of the probes.
    """

    programs_per_second: dict[str, Above0]
    manifest_programs_per_second: Above0
    start_seconds: Above0
    start_torch_seconds: Above0
    evaluation_fraction: Above0
    regression_fraction: Above0


class _Groups(BaseModel):
    shards: Annotated[int, Field(ge=1)]


class _Threads(BaseModel):
    manifest: Annotated[int, Field(ge=1)]


class Profile(BaseModel):
    """Settings of a Snakemake profile that decide the jobs.

    Attributes:
        groups: chains of shards, one per template and split, in one job.
        threads: cores of the manifest's job.
    """

    groups: _Groups = Field(alias="group-components")
    threads: _Threads = Field(alias="set-threads")


@dataclass(frozen=True)
class Stage:
    """The jobs of one rule or experiment, and the core-hours and GPU-hours that they hold."""

    name: str
    jobs: int
    cpu_hours: float
    gpu_hours: float


@dataclass(frozen=True)
class WorkflowPlan:
    """The whole workflow on a cluster.

    Attributes:
        gpu: name in the table of devices.
        choice: the configured number of GPUs beside the cheapest.
        stages: in the order of the workflow.
        jobs, cpu_hours, gpu_hours: of all stages.
        disk_bytes: the most that each kind of file takes, checkpoints with the one being written.
        usd: price of the GPU-hours.
    """

    gpu: str
    choice: Choice
    stages: tuple[Stage, ...]
    jobs: int
    cpu_hours: float
    gpu_hours: float
    disk_bytes: dict[str, int]
    usd: float


def plan_workflow(
    config: Config,
    planned: Plan,
    devices: Path = DEVICES,
    rates: Path = RATES,
    profile: Path = PROFILE,
    gpu: str | None = None,
) -> WorkflowPlan:
    """Estimate the workflow of ``config`` on a cluster.

    Args:
        config: the run.
        planned: its :func:`cadmus.planning.training.plan`.
        devices, gpu: table and name of the GPU, see :func:`cadmus.planning.training.read_gpu`.
        rates: YAML file of :class:`Rates`.
        profile: YAML file of the Snakemake profile.

    Raises:
        InputError: the GPU, a rate or a setting of the profile is missing or wrong.
    """
    device = read_gpu(devices, gpu_count(config.train), gpu)
    rate = read_model(rates, Rates)
    missing = [name for name in TEMPLATES if name not in rate.programs_per_second]
    if missing:
        raise InputError(f"{rates}: programs_per_second.{missing[0]}: missing; add a rate")
    settings = read_model(profile, Profile)
    stages = (
        _shards(config, rate, settings.groups.shards),
        _manifest(config, rate, settings.threads.manifest),
        _training(config, planned, rate, device),
        *_experiments(config, rate, device),
        # Requests are prepared and graded in one job each; sending and collecting run beside Snakemake.
        *([Stage("llm", 2, 2 * rate.start_seconds / 3600, 0.0)] if config.llm.models else []),
    )
    gpu_hours = sum(stage.gpu_hours for stage in stages)
    return WorkflowPlan(
        gpu=device.name,
        choice=compare_counts(config, planned, device),
        stages=stages,
        jobs=sum(stage.jobs for stage in stages),
        cpu_hours=sum(stage.cpu_hours for stage in stages),
        gpu_hours=gpu_hours,
        disk_bytes=disk_bytes(config, planned),
        usd=gpu_hours * device.usd_per_hour,
    )


def _shards(config: Config, rate: Rates, per_job: int) -> Stage:
    """Each chain of shards, of one template and split, has a core of its job until the longest ends."""
    chains: dict[tuple[str, str], list[int]] = defaultdict(list)
    for shard in shards.plan(config):
        chains[shard.template, shard.split].append(shard.rows)
    seconds = [
        len(rows) * rate.start_seconds + sum(rows) / rate.programs_per_second[template]
        for (template, _), rows in chains.items()
    ]
    of_jobs = [seconds[first : first + per_job] for first in range(0, len(seconds), per_job)]
    return Stage("shard", len(of_jobs), sum(len(job) * max(job) for job in of_jobs) / 3600, 0.0)


def _manifest(config: Config, rate: Rates, cores: int) -> Stage:
    programs = sum(shard.rows for shard in shards.plan(config))
    seconds = rate.start_seconds * cores + programs / rate.manifest_programs_per_second
    return Stage("manifest", 1, seconds / 3600, 0.0)


def _training(config: Config, planned: Plan, rate: Rates, device: Device) -> Stage:
    seconds = rate.start_torch_seconds + training_seconds(config, planned.flops, device)
    return Stage("train", 1, 0.0, device.count * seconds / 3600)


def _experiments(config: Config, rate: Rates, device: Device) -> list[Stage]:
    lengths = {
        template: (average.tokens, average.prompt_tokens)
        for template, average in average_programs(config).items()
    }
    training_rate = device.teraflops * 1e12
    stages = []
    for name in experiments.NAMES:
        experiment = experiments.get(name)
        cost = experiment.cost(config, lengths)
        # A forward pass is a third of a training step's; attention is left out, as programs are short.
        forward = training_flops(config.model, cost.tokens, pairs=0) / 3
        seconds = (
            rate.start_torch_seconds
            + forward / (training_rate * rate.evaluation_fraction)
            + cost.flops / (training_rate * rate.regression_fraction)
        )
        stages.append(Stage(name, 1, 0.0, seconds / 3600))
    return stages


def checkpoint_bytes(config: Config) -> int:
    """Return the size of a checkpoint: fp32 weights and Adam's two moments, one for Muon's matrices."""
    matrices = config.model.layers * block_matrices(config.model) if config.train.optimizer == "muon" else 0
    return BYTES_FP32 * (3 * parameter_count(config.model) - matrices)


def disk_bytes(config: Config, planned: Plan) -> dict[str, int]:
    export = BYTES_FP32 * planned.parameters
    return {
        "dataset": planned.dataset_bytes,
        "checkpoints": (config.train.keep_checkpoints + 1) * checkpoint_bytes(config),
        "snapshots": len(snapshot_steps(config.train)) * export,
        "export": export,
    }
