"""What the whole workflow takes on a SLURM cluster with GPUs: jobs, hours, disk, a bill, and the overhead.

Rates come from ``config/rates.tsv``, the GPU from ``config/devices.tsv``, and how shards share jobs from the
profile of the workflow.  Neither torch nor Snakemake is imported.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cadmus.common.files import read_table
from cadmus.config import TEMPLATES, Config, read_yaml
from cadmus.dataset import shards
from cadmus.errors import InputError
from cadmus.evaluate.comparisons import HALF
from cadmus.figures import CAPTIONS
from cadmus.model.flops import block_matrices, parameter_count, training_flops
from cadmus.planning.training import (
    DEVICES,
    AverageProgram,
    Choice,
    Device,
    Plan,
    average_programs,
    compare_counts,
    gpu_count,
    read_gpu,
    training_seconds,
)
from cadmus.probe import sizes
from cadmus.train.snapshots import snapshot_steps

_ROOT = Path(__file__).parents[2]
RATES = _ROOT / "config" / "rates.tsv"
"""The rates that are reckoned with, and where each comes from."""
PROFILE = _ROOT / "workflow" / "profiles" / "slurm"
"""The profile that the workflow has on a cluster."""
COLUMNS = ("what", "rate", "unit", "source")
UNITS = {
    **dict.fromkeys(TEMPLATES, "programs/s"),
    "manifest": "programs/s",
    "start": "s",
    "start_torch": "s",
    "evaluation_share": "of training",
    "regression_share": "of training",
    "core_price": "USD/h",
    "job_overhead": "s",
}
"""What a table of rates has, and the unit of each.

A rate of programs is that of one core; ``start`` is that of a process, ``start_torch`` of one that loads
torch; the two shares are what evaluation and the regressions of the probe reach of a GPU's rate in training;
``job_overhead`` is what a job holds its cores and GPUs before and after its work.
"""
BYTES_FP32 = 4
EXPERIMENTS = ("completions", "curve", "grid", "probe", "lens", "patch")
"""The rules that run a model, each in a job with one GPU."""
LLM = ("llm_prepare", "llm_score")
"""The rules about large language models that are jobs; two more, which send and collect, are local."""


@dataclass(frozen=True)
class Stage:
    """The jobs of one rule.

    Attributes:
        rule: its name in the workflow.
        jobs: of the cluster.
        cores, gpus: held by all of these jobs together; the cores of a job with GPUs come with them.
        cpu_hours, gpu_hours: held for the work, until the last process of a job ends; without the overhead.
    """

    rule: str
    jobs: int
    cores: int
    gpus: int
    cpu_hours: float
    gpu_hours: float


@dataclass(frozen=True)
class ClusterPlan:
    """The whole workflow on a cluster.

    Attributes:
        gpu: its name in the table of devices.
        choice: its configured number beside the cheapest.
        stages: the rules that are jobs of the cluster, in order.
        jobs: of all stages.
        local_jobs: jobs of the workflow that run beside Snakemake and are no jobs of the cluster.
        cpu_hours, gpu_hours: of all stages.
        disk_bytes: the most that each kind of file takes: dataset, checkpoints (those kept and the one being
            written), snapshots, export.
        overhead_seconds: of each job.
        cpu_overhead, gpu_overhead, overhead: what jobs hold during it over what they hold for the work: in
            core-hours, in GPU-hours, and in USD.
        usd: the bill, overhead included.
    """

    gpu: str
    choice: Choice
    stages: tuple[Stage, ...]
    jobs: int
    local_jobs: int
    cpu_hours: float
    gpu_hours: float
    disk_bytes: dict[str, int]
    overhead_seconds: float
    cpu_overhead: float
    gpu_overhead: float
    overhead: float
    usd: float


class Profile(NamedTuple):
    """What the profile of the workflow says of jobs.

    Attributes:
        chains_per_job: chains of shards, those of one template and split, in one job.
        manifest_cores: of the job of the manifest.
    """

    chains_per_job: int
    manifest_cores: int


def plan_cluster(
    config: Config,
    planned: Plan,
    devices: Path = DEVICES,
    rates: Path = RATES,
    profile: Path = PROFILE,
    gpu: str | None = None,
) -> ClusterPlan:
    """What the workflow of ``config`` takes on a cluster.

    Args:
        config: the run.
        planned: its :func:`cadmus.planning.training.plan`.
        devices, gpu: table and name of the GPU, see :func:`cadmus.planning.training.read_gpu`.
        rates: see :func:`read_rates`.
        profile: see :func:`read_profile`.

    Raises:
        InputError: the GPU, a rate or the profile is missing or wrong.
    """
    device = read_gpu(devices, gpu_count(config.train), gpu)
    rate = read_rates(rates)
    stages = _stages(config, planned.flops, device, rate, read_profile(profile))
    cpu_hours, gpu_hours = (
        sum(getattr(stage, name) for stage in stages) for name in ("cpu_hours", "gpu_hours")
    )
    hours = rate["job_overhead"] / 3600
    cpu_lost, gpu_lost = (hours * sum(getattr(stage, name) for stage in stages) for name in ("cores", "gpus"))
    work, lost = (
        cores * rate["core_price"] + gpus * device.usd_per_hour
        for cores, gpus in ((cpu_hours, gpu_hours), (cpu_lost, gpu_lost))
    )
    return ClusterPlan(
        gpu=device.name,
        choice=compare_counts(config, planned, device),
        stages=tuple(stages),
        jobs=sum(stage.jobs for stage in stages),
        local_jobs=local_jobs(config),
        cpu_hours=cpu_hours,
        gpu_hours=gpu_hours,
        disk_bytes=_disk(config, planned),
        overhead_seconds=rate["job_overhead"],
        cpu_overhead=cpu_lost / cpu_hours,
        gpu_overhead=gpu_lost / gpu_hours,
        overhead=lost / work,
        usd=work + lost,
    )


def jobs(config: Config, chains_per_job: int) -> dict[str, int]:
    """The jobs of the cluster, by rule.

    Args:
        config: the run.
        chains_per_job: see :class:`Profile`.
    """
    rules = ("manifest", "train", *EXPERIMENTS, *(LLM if config.llm.models else ()))
    return {"shard": math.ceil(len(_chains(config)) / chains_per_job), **dict.fromkeys(rules, 1)}


def local_jobs(config: Config) -> int:
    """Jobs of the workflow that are none of the cluster, those that send to language models included."""
    report_and_card = 2
    return len(CAPTIONS) + report_and_card + (2 if config.llm.models else 0)


def read_rates(path: Path) -> dict[str, float]:
    """The rates of a table of tab-separated values, in the units of :data:`UNITS`.

    Raises:
        InputError: as :func:`cadmus.common.files.read_table`, a row is missing, unknown or there twice, or a
            rate has another unit or is no number above 0.
    """
    found: dict[str, float] = {}
    for row in read_table(path, COLUMNS, "rates"):
        what = row["what"]
        if what not in UNITS or what in found:
            problem = "comes twice" if what in found else f"is none of the rates {', '.join(UNITS)}"
            raise InputError(f"{path}: {what!r} {problem}")
        if row["unit"] != UNITS[what]:
            raise InputError(f"{path}: {what}: its unit is {UNITS[what]!r}, not {row['unit']!r}")
        try:
            found[what] = float(row["rate"])
        except ValueError:
            found[what] = 0.0
        # Written so that NaN is refused as well.
        if not 0 < found[what] < math.inf:
            raise InputError(f"{path}: {what}: a number above 0 should stand here, not {row['rate']!r}")
    missing = [what for what in UNITS if what not in found]
    if missing:
        raise InputError(f"{path}: has no row {missing[0]!r}")
    return found


def read_profile(directory: Path) -> Profile:
    """What a profile of Snakemake says of jobs.

    Args:
        directory: its ``config.yaml`` has ``group-components: {shards: N}`` and ``set-threads: {manifest:
            N}``.

    Raises:
        InputError: it cannot be read, or says something else.
    """
    path = directory / "config.yaml"
    values: Any = read_yaml(path)

    def number(entry: str, key: str) -> int:
        mapping = values.get(entry) if isinstance(values, dict) else None
        found = mapping.get(key) if isinstance(mapping, dict) else None
        if type(found) is not int or found < 1:
            raise InputError(f"{path}: {entry}: {{{key}: N}} should stand here, N a whole number above 0")
        return found

    return Profile(number("group-components", "shards"), number("set-threads", "manifest"))


def _chains(config: Config) -> dict[tuple[str, str], list[int]]:
    """The rows of the shards that come one after another, by template and split."""
    chains: dict[tuple[str, str], list[int]] = defaultdict(list)
    for shard in shards.plan(config):
        chains[shard.template, shard.split].append(shard.rows)
    return chains


def _stages(
    config: Config, flops: float, device: Device, rate: dict[str, float], profile: Profile
) -> list[Stage]:
    """The rules of :func:`jobs`, in order.

    Args:
        config: the run.
        flops: of its training.
        device: the GPU, as many as the training has.
        rate: of :func:`read_rates`.
        profile: of the workflow.
    """
    training_rate = device.teraflops * 1e12
    seconds = {
        "train": training_seconds(config, flops, device),
        **_experiment_seconds(config, training_rate, rate),
    }
    stages = []
    for rule in jobs(config, profile.chains_per_job):
        if rule == "shard":
            stages.append(_shard_stage(config, profile.chains_per_job, rate))
        elif rule == "manifest":
            cores = profile.manifest_cores
            # Starting takes one core; the others are held all the same.
            held = rate["start"] * cores + sum(s.rows for s in shards.plan(config)) / rate["manifest"]
            stages.append(Stage(rule, 1, cores, 0, held / 3600, 0.0))
        elif rule in LLM:
            stages.append(Stage(rule, 1, 1, 0, rate["start"] / 3600, 0.0))
        else:
            gpus = device.count if rule == "train" else 1
            held = gpus * (rate["start_torch"] + seconds[rule])
            stages.append(Stage(rule, 1, 0, gpus, 0.0, held / 3600))
    return stages


def _shard_stage(config: Config, per_job: int, rate: dict[str, float]) -> Stage:
    """Chains share jobs in their order in the dataset, and each has a core until the longest ends."""
    seconds = [
        len(rows) * rate["start"] + sum(rows) / rate[template]
        for (template, _), rows in _chains(config).items()
    ]
    of_jobs = [seconds[first : first + per_job] for first in range(0, len(seconds), per_job)]
    held = sum(len(of_job) * max(of_job) for of_job in of_jobs)
    return Stage("shard", len(of_jobs), len(seconds), 0, held / 3600, 0.0)


def _experiment_seconds(config: Config, training_rate: float, rate: dict[str, float]) -> dict[str, float]:
    """Seconds of each experiment on one GPU.

    Args:
        config: the run.
        training_rate: floating-point operations a second that the GPU achieves in training.
        rate: of :func:`read_rates`.
    """
    per_second = training_rate * rate["evaluation_share"]
    # A forward pass is a third of a training's; attention's part is left out, programs being short.
    seconds = {
        rule: training_flops(config.model, tokens, pairs=0) / 3 / per_second
        for rule, tokens in experiment_tokens(config).items()
    }
    seconds["probe"] += regression_flops(config) / (training_rate * rate["regression_share"])
    return seconds


def experiment_tokens(config: Config) -> dict[str, float]:
    """Tokens that go through the model in each experiment, all times that they do; padding is left out."""
    averages = average_programs(config)
    evaluate, layers = config.evaluate, config.model.layers + 1
    pixels = (evaluate.grid.high - evaluate.grid.low + 1) ** 2
    probed = evaluate.probe.train_programs + evaluate.probe.validation_programs + evaluate.probe.test_programs
    passes = math.ceil(layers / sizes.layers_at_once(sizes.TOKENS, probed, config.model.width))
    # At two tokens of each layer; half of the blocks, on average, are computed of the donor.
    exchanged = 2 * layers * 1.5 * evaluate.patch_programs
    return {
        "completions": _completed_tokens(config, averages, evaluate.programs),
        "curve": len(snapshot_steps(config.train))
        * _completed_tokens(config, averages, evaluate.snapshot_programs),
        "grid": pixels * evaluate.grid.programs_per_pixel * 2 * HALF,
        "probe": passes * probed * sizes.TOKENS,
        "lens": evaluate.lens_programs * sizes.TOKENS,
        "patch": (sizes.DRAWN_PER_PAIR * evaluate.patch_programs + exchanged) * 2 * HALF,
    }


def _completed_tokens(config: Config, averages: dict[str, AverageProgram], most: int) -> float:
    """Tokens that completing programs computes: those of the programs, and those of the prompts again."""
    total = 0.0
    for (template, split), rows in _chains(config).items():
        if split == config.evaluate.split:
            # Equality is completed from two places.
            times = 2 if template == "equality" else 1
            average = averages[template]
            total += times * min(most, sum(rows)) * (average.tokens - 1 + average.prompt_tokens)
    return total


def regression_flops(config: Config) -> float:
    """Floating-point operations of the regressions of the probe, products of matrices and eigenvalues.

    For both values, each layer and token, and again for the control: of N programs with D features and K
    classes the covariance and the turned features take 4 · N · D², the eigenvalues about 9 · D³; a step on
    one of B batches 4 · N / B · D · K + 2 · D² · K, and each regularisation 2 · D³ once.
    """
    probe, width, values = config.evaluate.probe, config.model.width, config.dataset.values
    rows, classes = probe.train_programs, values.high - values.low + 1
    regularisations = len(probe.inverse_regularisation)
    steps = sum(sizes.steps(place) for place in range(regularisations))
    of_step = 4 * rows / sizes.batches(rows) * width * classes + 2 * width**2 * classes
    once = 4 * rows * width**2 + (9 + 2 * regularisations) * width**3
    targets, with_control = 2, 2
    regressions = targets * with_control * (config.model.layers + 1) * sizes.TOKENS
    return regressions * (once + steps * of_step)


def checkpoint_bytes(config: Config) -> int:
    """Size of a checkpoint: fp32 weights and two moments of Adam; one for the matrices that Muon trains."""
    matrices = config.model.layers * block_matrices(config.model) if config.train.optimizer == "muon" else 0
    return BYTES_FP32 * (3 * parameter_count(config.model) - matrices)


def _disk(config: Config, planned: Plan) -> dict[str, int]:
    train = config.train
    # The one being written has its place before the oldest goes.
    checkpoints = (train.keep_checkpoints + 1) * checkpoint_bytes(config)
    export = BYTES_FP32 * planned.parameters
    return {
        "dataset": planned.dataset_bytes,
        "checkpoints": checkpoints,
        "snapshots": len(snapshot_steps(train)) * export,
        "export": export,
    }
