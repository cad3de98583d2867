"""Estimates of a run before it starts: parameters, tokens, FLOPs, disk, hours and cost.

Nothing is trained and no dataset is made for it, and neither torch nor deepspeed is imported.
"""

import functools
import math
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cadmus.common.files import read_table
from cadmus.common.progress import progress
from cadmus.common.seeds import seed_of
from cadmus.config import TEMPLATES, Config, Dataset, Train
from cadmus.dataset import shards
from cadmus.errors import InputError, suggest
from cadmus.model.flops import embedding_count, parameter_count, training_flops
from cadmus.templates import TEMPLATES as DRAWN
from cadmus.templates import Candidates, Draw
from cadmus.vm.compiled import verdicts

DEVICES = Path(__file__).parents[2] / "config" / "devices.tsv"
"""Speed and price of each device."""
SAMPLE = 8_192
"""Candidates drawn of each template to see how long its programs are."""
MEASURED = "measured:"
"""Beginning of the source of a rate that was measured; any other rate is an estimate."""
COLUMNS = (
    "device",
    "counts",
    "teraflops",
    "peak_teraflops",
    "fixed_ms_per_layer",
    "usd_per_hour",
    "source",
)


@dataclass(frozen=True)
class Device:
    """A row of the table of devices, for one count.

    Attributes:
        name: of one device.
        count: number of devices.
        teraflops: one device's rate on the matrix products of a training, in 10^12 operations per second.
        peak_teraflops: one device's peak, the base of MFU.
        fixed_ms_per_layer: time per step and layer that more devices do not shorten, in ms.
        usd_per_hour: price of one device.
        source: origin of the rates and the price.
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
        return self.source.startswith(MEASURED)


@dataclass(frozen=True)
class Estimate:
    """Time and price of a training.

    Attributes:
        device: the devices it runs on.
        hours: duration.
        usd: price of all devices.
        mfu: model FLOPs over what the devices could compute at their peak in that time.
    """

    device: Device
    hours: float
    usd: float
    mfu: float


@dataclass(frozen=True)
class Choice:
    """The configured number of GPUs beside the cheapest.

    Attributes:
        gpu: name of the device.
        cheapest: number of GPUs with the lowest price.
        configured: number of GPUs in the config.
        speedup: hours on the cheapest number over hours on the configured one.
        cost_ratio: USD for the configured number over USD for the cheapest.
    """

    gpu: str
    cheapest: int
    configured: int
    speedup: float
    cost_ratio: float


@dataclass(frozen=True)
class AverageProgram:
    """The mean over the training programs, those of one template or of all, each template with its share.

    Attributes:
        tokens: the end included.
        prompt_tokens: those before the place where a model is to go on.
        pairs: of a token and one that it attends to: itself, or one before it in the program.
        bytes: in a compressed shard.
    """

    tokens: float
    prompt_tokens: float
    pairs: float
    bytes: float


@dataclass(frozen=True)
class Plan:
    """The size of a run.  ``tokens`` and all that follows from them are estimates from a sample.

    Attributes:
        name: of the run.
        parameters, parameters_without_embeddings: of the model; embeddings are those of input and output.
        programs, tokens: of the training set, one epoch.
        shards, dataset_bytes: files of the dataset, all splits, and what they take on the disk.
        steps, batch_size, ranks: as configured.
        gpus: number of GPUs that ``ranks`` stands for, see :func:`gpu_count`.
        trained_programs, trained_tokens, epochs: over all steps.
        flops: of the training, see :func:`training_flops`.
        estimates: hours and cost on each device of the table, for the counts that divide the batch.
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
        devices: the table of devices, see :func:`read_devices`.

    Raises:
        InputError: the table of devices is missing or wrong, or a template gives no program that fits.
    """
    train = config.train
    wanted = [device for device in read_devices(devices, gpu_count(train)) if train.divides(device.count)]
    average = average_program(config)
    programs = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    trained = train.steps * train.batch_size
    flops = training_flops(config.model, trained * average.tokens, trained * average.pairs)
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

    The first term does not shrink with more devices.  Each step launches several hundred kernels, runs the
    optimizer and reduces the gradients.  A GPU with few tokens per step spends most of its time there, so
    FLOPs over the rate alone would promise a speedup that it does not reach.

    Args:
        config: the run, for its steps and layers.
        flops: of the whole training, see :func:`training_flops`.
        device: the devices, with their count.
    """
    fixed = config.train.steps * config.model.layers * device.fixed_ms_per_layer / 1000
    return fixed + flops / (device.count * device.teraflops * 1e12)


def compare_counts(config: Config, planned: Plan, gpu: Device) -> Choice:
    """Compare the price and time of ``gpu`` with those of the other counts in the table.

    Args:
        config: the run.
        planned: its :func:`plan`.
        gpu: the device, with the configured count.
    """
    configured = _estimate(config, planned.flops, gpu)
    others = [
        _estimate(config, planned.flops, estimate.device)
        for estimate in planned.estimates
        if estimate.device.name == gpu.name
    ]
    cheapest = min(configured, *others, key=lambda estimate: (estimate.usd, estimate.device.count))
    return Choice(
        gpu=gpu.name,
        cheapest=cheapest.device.count,
        configured=gpu.count,
        speedup=cheapest.hours / configured.hours,
        cost_ratio=configured.usd / cheapest.usd,
    )


def average_program(config: Config) -> AverageProgram:
    """The average training program, from a small sample of each template; the same for the same config.

    The sample is of programs before duplicates are removed, which are short ones mostly: of large datasets
    of small templates the average is a little low (2 % for ``quick``, 8 % for ``paper``).

    Raises:
        InputError: a template gives no program of at most dataset.max_length instructions.
    """
    of_template = average_programs(config)
    counts = [getattr(config.dataset.templates, name).train for name in of_template]
    means = [astuple(average) for average in of_template.values()]
    return AverageProgram(*np.average(means, axis=0, weights=counts).tolist())


def average_programs(config: Config) -> dict[str, AverageProgram]:
    """The average program of each template that has training programs, see :func:`average_program`.

    Raises:
        InputError: as there.
    """
    return dict(_average_programs(config.seed, config.dataset.model_dump_json()))


@functools.lru_cache(maxsize=1)
def _average_programs(seed: int, dataset_json: str) -> dict[str, AverageProgram]:
    """Drawn once for all that a plan asks of it; a config itself cannot be a key."""
    dataset = Dataset.model_validate_json(dataset_json)
    averages = {}
    for name in progress("sample", TEMPLATES, unit="template"):
        if getattr(dataset.templates, name).train:
            drawn = _draw(seed, dataset, name)
            tokens = drawn.programs.lengths + 1
            pairs = tokens * (tokens + 1) / 2
            averages[name] = AverageProgram(
                tokens=float(tokens.mean()),
                prompt_tokens=float(drawn.prompt_length.mean()),
                pairs=float(pairs.mean()),
                bytes=_stored_bytes(drawn),
            )
    return averages


def read_devices(path: Path, ranks: int) -> list[Device]:
    """Return the devices of a table of tab-separated values, one per count.

    Args:
        path: a table with the columns ``COLUMNS``; lines that begin with # are comments.
        ranks: value of the word ``ranks`` in the column counts.

    Raises:
        InputError: as :func:`cadmus.common.files.read_table`, or a value is not a number in its range.
    """
    return [device for row in read_table(path, COLUMNS, "devices") for device in _of_row(row, path, ranks)]


def read_gpu(path: Path, ranks: int, name: str | None = None) -> Device:
    """The device of a table that a cluster has, in as many pieces as there are ranks.

    Args:
        path, ranks: as for :func:`read_devices`.
        name: of the device; by default the first one of which the column counts has the word ``ranks``.

    Raises:
        InputError: as :func:`read_devices`, or there is no such device.
    """
    rows = read_table(path, COLUMNS, "devices")
    for row in rows:
        if row["device"] == name or (name is None and "ranks" in row["counts"].split()):
            return replace(_of_row(row, path, ranks)[0], count=ranks)
    if name is None:
        raise InputError(f"{path}: no device has the word ranks in the column counts")
    raise InputError(f"{path}: no device {name!r}; {suggest(name, (row['device'] for row in rows))}")


def _of_row(row: dict[str, str], path: Path, ranks: int) -> list[Device]:
    number = functools.partial(_number, row, path)
    fixed = number("fixed_ms_per_layer", zero_allowed=True)
    counts = row["counts"].replace("ranks", str(ranks)).split()
    wanted = sorted({int(number("counts", text=text)) for text in counts or [""]})
    return [
        Device(
            name=row["device"],
            count=count,
            teraflops=number("teraflops"),
            peak_teraflops=number("peak_teraflops"),
            fixed_ms_per_layer=fixed,
            usd_per_hour=number("usd_per_hour"),
            source=row["source"],
        )
        for count in wanted
    ]


def _number(
    row: dict[str, str], path: Path, column: str, text: str | None = None, zero_allowed: bool = False
) -> float:
    text = row[column] if text is None else text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    in_range = 0 < value < math.inf or (zero_allowed and value == 0)
    # NaN is in no range, and half a device does not exist.
    if not in_range or (column == "counts" and value != int(value)):
        what = "must be ranks or whole numbers" if column == "counts" else "must be a number"
        bound = "of at least 0" if zero_allowed else "above 0"
        raise InputError(f"{path}: {row['device']}: {column}: {what} {bound}, got {text!r}")
    return value


def _estimate(config: Config, flops: float, device: Device) -> Estimate:
    seconds = training_seconds(config, flops, device)
    hours = seconds / 3600
    mfu = flops / (seconds * device.count * device.peak_teraflops * 1e12)
    return Estimate(device, hours, hours * device.count * device.usd_per_hour, mfu)


def _draw(seed: int, dataset: Dataset, name: str) -> Candidates:
    """A sample of the true programs of a template; of all candidates where hardly any is true."""
    draw = Draw(np.random.default_rng(seed_of(seed, name, "plan", 0)), dataset)
    drawn = DRAWN[name](draw, SAMPLE)
    short = drawn.programs.lengths <= dataset.max_length
    if not short.any():
        raise InputError(
            f"dataset.templates.{name}: none of {SAMPLE} candidates has at most dataset.max_length "
            f"{dataset.max_length} instructions; raise it"
        )
    true = short & verdicts(drawn.programs)
    return drawn.take(np.flatnonzero(true if true.any() else short))


def _stored_bytes(drawn: Candidates) -> float:
    """Bytes of a program in a shard, from compressing these."""
    columns = {"program": drawn.programs.to_arrow(), "prompt_length": drawn.prompt_length.astype(np.uint8)}
    if drawn.x is not None and drawn.y is not None:
        columns |= {"x": drawn.x.astype(np.int16), "y": drawn.y.astype(np.int16)}
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file, compression="zstd")
    size: int = file.getvalue().size
    return size / len(drawn.programs)
