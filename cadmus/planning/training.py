"""Estimate the size, time and cost of a training from its config alone, without torch."""

import functools
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from cadmus.config import TABLES, TEMPLATES, Config, Dataset, Section, Train, read_model
from cadmus.config.fields import Above0, NonNegative
from cadmus.dataset import shards
from cadmus.errors import InputError, suggest
from cadmus.model.flops import causal_pairs, embedding_count, parameter_count, training_flops
from cadmus.programs import Samples
from cadmus.templates import TEMPLATES as SAMPLERS
from cadmus.templates import Draw
from cadmus.tools import progress, seed_of
from cadmus.train.labels import state_outputs
from cadmus.vm.compiled import verdicts

DEVICES = TABLES / "devices.yaml"
"""Table of this checkout."""
SAMPLE = 8_192
"""Candidates sampled per template to measure the length of its programs."""
RANKS = "ranks"
"""Stands for train.ranks in ``counts``."""


@dataclass(frozen=True)
class Device:
    """A number of equal devices.

    Attributes:
        name: of one device.
        count: number of devices.
        teraflops: training rate of one device in 10^12 FLOPs/s, matrix products only.
        peak_teraflops: peak rate of one device, the base of MFU.
        fixed_ms_per_layer: time per step and layer that more devices do not shorten, in ms.
        usd_per_hour: price of one device.
        source: source of the rates and the price.
    """

    name: str
    count: int
    teraflops: float
    peak_teraflops: float
    fixed_ms_per_layer: float
    usd_per_hour: float
    source: str

    @property
    def measured(self) -> bool:
        """True if the rate was measured, False if estimated."""
        return self.source.startswith("measured:")


class DeviceEntry(Section):
    """A device in ``config/tables/devices.yaml``; the fields are those of :class:`Device`."""

    counts: Annotated[list[int | Literal["ranks"]], Field(min_length=1)]
    """numbers of devices to estimate for; `ranks` is train.ranks"""
    teraflops: Above0
    peak_teraflops: Above0
    fixed_ms_per_layer: NonNegative
    usd_per_hour: Above0
    source: str

    @field_validator("counts", mode="before")
    @classmethod
    def _check_counts(cls, counts: Any) -> Any:
        for count in counts if isinstance(counts, list) else []:
            if count != RANKS and (type(count) is not int or count < 1):
                raise ValueError(f"must be {RANKS} or integers of at least 1, got {count!r}")
        return counts

    def device(self, name: str, count: int) -> Device:
        return Device(name, count, **self.model_dump(exclude={"counts"}))


@dataclass(frozen=True)
class Estimate:
    """Estimated time and cost of a training.

    Attributes:
        device: the devices it runs on.
        hours: duration.
        usd: price of all devices.
        mfu: model FLOPs utilization, relative to the peak of all devices.
    """

    device: Device
    hours: float
    usd: float
    mfu: float


@dataclass(frozen=True)
class Choice:
    """The configured number of GPUs compared with the cheapest.

    Attributes:
        gpu: name of the device.
        cheapest: number of GPUs with the lowest cost.
        configured: number of GPUs in the config.
        speedup: hours on the cheapest number over hours on the configured number.
        cost_ratio: cost of the configured number over cost of the cheapest.
    """

    gpu: str
    cheapest: int
    configured: int
    speedup: float
    cost_ratio: float


@dataclass(frozen=True)
class AverageProgram:
    """Means over training programs.

    Attributes:
        tokens: including the end token.
        prompt_tokens: tokens of the prompt.
        pairs: pairs of a token and one that it attends to, including itself.
        bytes: size in a compressed shard.
    """

    tokens: float
    prompt_tokens: float
    pairs: float
    bytes: float


@dataclass(frozen=True)
class Plan:
    """The size of a run; ``tokens`` and everything derived from it are estimates from a sample.

    Attributes:
        name: of the run.
        parameters, parameters_without_embeddings: of the model, input and output embeddings.
        programs, tokens: one epoch of the training set.
        shards, dataset_bytes: number and size of the dataset's files, all splits.
        steps, batch_size, ranks: as configured.
        gpus: number of GPUs, see :func:`gpu_count`.
        trained_programs, trained_tokens, epochs: over all steps.
        flops: of the training, see :func:`training_flops`.
        estimates: time and cost for every device and count that divides the batch.
    """

    name: str
    parameters: int
    parameters_without_embeddings: int
    programs: int
    tokens: int
    shards: int
    dataset_bytes: int
    steps: int
    batch_size: int
    ranks: int | Literal["auto"]
    gpus: int
    trained_programs: int
    trained_tokens: int
    epochs: float
    flops: float
    estimates: tuple[Estimate, ...]


def plan(config: Config, devices: Path = DEVICES) -> Plan:
    """Estimate the size, time and cost of a training.

    Args:
        config: the run.
        devices: table of devices.

    Raises:
        InputError: the table is invalid, or a template has no program that fits dataset.max_length.
    """
    train = config.train
    wanted = [device for device in read_devices(devices, gpu_count(train)) if train.divides(device.count)]
    average = average_program(config)
    programs = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    trained = train.steps * train.batch_size
    flops = training_flops(
        config.model, trained * average.tokens, trained * average.pairs, state_outputs(train)
    )
    # At most: as if all completions differed and were as long as those of the dataset.
    verdict = train.verdict
    sampled = train.verdict_steps * len(verdict.questions) * verdict.prompts * verdict.samples
    flops += 4 / 3 * training_flops(config.model, sampled * average.tokens, sampled * average.pairs)
    files = shards.plan(config)
    return Plan(
        name=config.name,
        parameters=parameter_count(config.model),
        parameters_without_embeddings=parameter_count(config.model) - embedding_count(config.model),
        programs=programs,
        tokens=round(programs * average.tokens),
        shards=len(files),
        dataset_bytes=round(sum(shard.rows for shard in files) * average.bytes),
        steps=train.steps,
        batch_size=train.batch_size,
        ranks=train.ranks,
        gpus=gpu_count(train),
        trained_programs=trained,
        trained_tokens=round(trained * average.tokens),
        epochs=trained / programs,
        flops=flops,
        estimates=tuple(_estimate(config, flops, device) for device in wanted),
    )


def gpu_count(train: Train) -> int:
    """Return the number of GPUs of a training; ``auto`` counts as one."""
    return 1 if train.ranks == "auto" else train.ranks


def training_seconds(config: Config, flops: float, device: Device) -> float:
    """Return the duration of a training in seconds.

    steps · layers · fixed_ms_per_layer / 1000 + flops / (count · teraflops · 10^12)

    The first term is the launch of kernels, the optimizer and the gradient reduction. It dominates on GPUs
    with few tokens per step.

    Args:
        config: the run, for its steps and layers.
        flops: of the whole training, see :func:`training_flops`.
        device: the devices, with their count.
    """
    fixed = config.train.steps * config.model.layers * device.fixed_ms_per_layer / 1000
    return fixed + flops / (device.count * device.teraflops * 1e12)


def _estimate(config: Config, flops: float, device: Device) -> Estimate:
    seconds = training_seconds(config, flops, device)
    hours = seconds / 3600
    mfu = flops / (seconds * device.count * device.peak_teraflops * 1e12)
    return Estimate(device, hours, hours * device.count * device.usd_per_hour, mfu)


def compare_counts(config: Config, planned: Plan, gpu: Device) -> Choice:
    """Compare the time and cost on ``gpu`` with those of the other counts in the plan.

    Args:
        config: the run.
        planned: its :func:`plan`.
        gpu: the device, with the configured count.
    """
    configured = _estimate(config, planned.flops, gpu)
    others = [estimate for estimate in planned.estimates if estimate.device.name == gpu.name]
    cheapest = min(configured, *others, key=lambda estimate: (estimate.usd, estimate.device.count))
    return Choice(
        gpu=gpu.name,
        cheapest=cheapest.device.count,
        configured=gpu.count,
        speedup=cheapest.hours / configured.hours,
        cost_ratio=configured.usd / cheapest.usd,
    )


def average_program(config: Config) -> AverageProgram:
    """Return the means over the training programs of all templates.

    They come from a small sample before deduplication, so large datasets of small templates have slightly
    more tokens than estimated (2% for ``quick``, 8% for ``paper``).

    Raises:
        InputError: a template has no program that fits dataset.max_length.
    """
    by_template = average_programs(config)
    counts = [getattr(config.dataset.templates, name).train for name in by_template]
    means = [astuple(average) for average in by_template.values()]
    return AverageProgram(*np.average(means, axis=0, weights=counts).tolist())


def average_programs(config: Config) -> dict[str, AverageProgram]:
    """Return the means of each template that has training programs, see :func:`average_program`."""
    return dict(_average_programs(config.seed, config.dataset.model_dump_json()))


# A config is not hashable, its JSON is.
@functools.lru_cache(maxsize=1)
def _average_programs(seed: int, dataset_json: str) -> dict[str, AverageProgram]:
    dataset = Dataset.model_validate_json(dataset_json)
    averages = {}
    for name in progress("sample", TEMPLATES, unit="template"):
        if getattr(dataset.templates, name).train:
            drawn = _sample(seed, dataset, name)
            tokens = drawn.programs.lengths + 1
            averages[name] = AverageProgram(
                tokens=float(tokens.mean()),
                prompt_tokens=float(drawn.prompt_length.mean()),
                pairs=float(causal_pairs(tokens).mean()),
                bytes=_stored_bytes(drawn),
            )
    return averages


def _sample(seed: int, dataset: Dataset, name: str) -> Samples:
    """Sample true programs of a template; any candidates if none of them is true."""
    draw = Draw(np.random.default_rng(seed_of(seed, name, "plan", 0)), dataset)
    drawn = SAMPLERS[name](draw, SAMPLE)
    short = drawn.programs.lengths <= dataset.max_length
    if not short.any():
        raise InputError(
            f"dataset.templates.{name}: all of {SAMPLE} candidates have more than dataset.max_length "
            f"{dataset.max_length} instructions; raise it"
        )
    true = short & verdicts(drawn.programs)
    return drawn.take(np.flatnonzero(true if true.any() else short))


def _stored_bytes(drawn: Samples) -> float:
    """Return the mean size of a program in a compressed shard."""
    columns = {"program": drawn.programs.to_arrow(), "prompt_length": drawn.prompt_length.astype(np.uint8)}
    if drawn.x is not None and drawn.y is not None:
        columns |= {"x": drawn.x.astype(np.int16), "y": drawn.y.astype(np.int16)}
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file, compression="zstd")
    size: int = file.getvalue().size
    return size / len(drawn.programs)


def read_devices(path: Path, ranks: int) -> list[Device]:
    """Return the devices of a table, one per count.

    Args:
        path: YAML, see ``config/tables/devices.yaml``.
        ranks: value of ``ranks`` in ``counts``.

    Raises:
        InputError: the table is invalid.
    """
    return [
        entry.device(name, count)
        for name, entry in read_model(path, dict[str, DeviceEntry]).items()
        for count in sorted({ranks if isinstance(count, str) else count for count in entry.counts})
    ]


def read_gpu(path: Path, ranks: int, name: str | None = None) -> Device:
    """Return a device of a table with ``ranks`` as its count.

    Args:
        path, ranks: as for :func:`read_devices`.
        name: of the device; by default the first that has ``ranks`` in ``counts``.

    Raises:
        InputError: the table is invalid, or has no such device.
    """
    entries = read_model(path, dict[str, DeviceEntry])
    if name is None:
        name = next((name for name, entry in entries.items() if RANKS in entry.counts), None)
        if name is None:
            raise InputError(f"{path}: no device has {RANKS} in counts; add it to one")
    if name not in entries:
        raise InputError(f"{path}: no device {name!r}; {suggest(name, entries)}")
    return entries[name].device(name, ranks)
