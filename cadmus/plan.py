"""Estimates before a run: size, FLOPs, time, price, disk and memory, from the config alone.

A small sample of each template gives the mean length of its programs. The rest is arithmetic: the FLOPs
follow from the tokens and the sizes of the model, and a training on a device takes

    steps · layers · fixed_ms_per_layer / 1000 + flops / (count · teraflops · 10^12)

seconds. The first term is the optimizer and the gradient reduction, which more devices do not shorten. With
few tokens per step a GPU waits for its host, which launches kernels for steps · layers · host_ms_per_layer /
1000 seconds. Reinforcement also samples, one token after another: each of its steps takes up to max_length ·
layers · sampling_ms_per_layer / 1000 seconds more.

Torch is not imported, and numba only to sample: Snakemake imports this module.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from cadmus.config import TABLES, TEMPLATES, Config, Dataset, Section, read_model
from cadmus.config.fields import Above0, NonNegative, positive_or
from cadmus.dataset.shards import list_shards
from cadmus.errors import InputError
from cadmus.model.flops import block_matrices, causal_pairs, embedding_count, parameter_count, training_flops
from cadmus.tools import progress, seed_of
from cadmus.train.paths import KEPT_CHECKPOINTS, snapshot_steps

DEVICES = TABLES / "devices.yaml"
SAMPLE = 8_192
"""Candidates sampled per template to measure the length of its programs."""
BYTES_PER_TOKEN = 0.69
"""Of a token in a compressed shard: 0.69 for ``quick``, 0.64 for ``paper``."""
BYTES_FP32 = 4
BYTES_PER_GPU, BYTES_PER_CORE = 6 * 10**9, 3 * 10**9 // 2
"""Host memory of a rank, on a GPU or per core, besides the model."""
STATE_BYTES = 26
"""Of a parameter on a rank: weights, gradients and Muon's momentum in fp32, copies of them in bf16."""
KEPT_WIDTHS = 20
"""Numbers that a block keeps of a token for the backward pass, in widths, with an MLP of four widths."""
TOKENS_PER_PROGRAM = 20
"""For memory, which is asked for before anything is sampled."""
BYTES_PER_PROGRAM = 30
"""Host memory of a training program in each rank."""
CORES = 2
"""Cores of a training without GPUs, for the estimate of its memory."""


class Device(Section):
    """A device in ``config/tables/devices.yaml``."""

    counts: Annotated[list[Annotated[int | Literal["ranks"], positive_or("ranks")]], Field(min_length=1)]
    """numbers of devices to estimate for; `ranks` is train.ranks, of GPUs"""
    teraflops: Above0
    """training rate of one device in 10^12 FLOPs/s, matrix products only"""
    peak_teraflops: Above0
    """peak rate of one device, the base of MFU"""
    fixed_ms_per_layer: NonNegative
    """time per step and layer that more devices do not shorten, in ms"""
    host_ms_per_layer: NonNegative = 0.0
    """time per step and layer of the host of a GPU, which works at the same time, in ms"""
    sampling_ms_per_layer: NonNegative = 0.0
    """time per layer for one more token of all samples of a step with reinforcement, in ms"""
    usd_per_hour: Above0
    """price of one device"""
    source: str
    """source of the rates and the price; starts with `measured:` or `estimated:`"""


Devices = Annotated[dict[str, Device], Field(min_length=1)]


@dataclass(frozen=True)
class Estimate:
    """Estimated time, price of all devices and model FLOPs utilization of a training.

    ``measured`` tells whether the rate of the device was measured.
    """

    device: str
    count: int
    measured: bool
    hours: float
    usd: float
    mfu: float


def plan(config: Config, devices: Path = DEVICES) -> dict[str, Any]:
    """Estimate a run with the rates of a table of devices.

    ``programs`` and ``tokens`` are of one epoch, ``trained_...`` of all steps, ``shards`` of all splits. All
    that depends on ``tokens`` is estimated from a sample. ``disk_bytes`` is the most that each kind of file
    takes, ``memory_bytes`` that of the host, ``gpu_memory_bytes`` that of each GPU. ``estimates``
    has a list of :class:`Estimate`.
    """
    from cadmus.train.labels import state_outputs

    train, model = config.train, config.model
    gpus = 1 if train.ranks == "auto" else train.ranks
    # A config is not hashable, its JSON is.
    tokens, pairs = average_program(config.seed, config.dataset.model_dump_json())
    parameters = parameter_count(model)
    programs = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    trained = train.programs
    flops = training_flops(model, trained * tokens, trained * pairs, state_outputs(train))
    # At most: as if all completions differed and were as long as those of the dataset.
    reinforcement = train.reinforcement
    completions_per_step = len(reinforcement.questions) * reinforcement.prompts * reinforcement.samples
    completions = len(train.reinforcement_steps) * completions_per_step
    # Sampling adds a forward pass to the three of training, whose backward pass counts twice.
    flops += 4 / 3 * training_flops(model, completions * tokens, completions * pairs)
    export_bytes = BYTES_FP32 * parameters // (2 if train.export_precision == "bf16" else 1)
    files = list_shards(config)
    dataset_bytes = round(sum(shard.rows for shard in files) * tokens * BYTES_PER_TOKEN)
    return {
        "name": config.name,
        "parameters": parameters,
        "parameters_without_embeddings": parameters - embedding_count(model),
        "programs": programs,
        "tokens": round(programs * tokens),
        "shards": len(files),
        "dataset_bytes": dataset_bytes,
        "steps": train.steps,
        "batch_size": train.batch_size,
        "ranks": train.ranks,
        "gpus": gpus,
        "trained_programs": trained,
        "trained_tokens": round(trained * tokens),
        "epochs": trained / programs,
        "flops": flops,
        "disk_bytes": {
            "dataset": dataset_bytes,
            # One more than is kept: the next is written before the oldest is removed.
            "checkpoints": (KEPT_CHECKPOINTS + 1) * checkpoint_bytes(config),
            "snapshots": len(snapshot_steps(train)) * export_bytes,
            "export": export_bytes,
        },
        "memory_bytes": training_memory(config, 0 if train.ranks == "auto" else gpus, CORES, programs),
        "gpu_memory_bytes": model_memory(config, gpus),
        "estimates": [
            _estimate(config, flops, name, device, count)
            for name, device in read_model(devices, Devices).items()
            for count in sorted({gpus if isinstance(count, str) else count for count in device.counts})
            if not train.indivisible(count)
        ],
    }


def training_memory(config: Config, gpus: int, cores: int, programs: int) -> int:
    """Return the host memory of a training, with 0 GPUs on CPUs, in bytes."""
    of_rank = BYTES_PER_GPU if gpus else BYTES_PER_CORE + model_memory(config, cores)
    return (gpus or cores) * (of_rank + programs * BYTES_PER_PROGRAM)


def model_memory(config: Config, ranks: int) -> int:
    """Return the memory that a model in training takes on the device of each of its ranks, in bytes."""
    model, train = config.model, config.train
    programs = train.micro_batch_size or -(-train.batch_size // ranks)
    # Adam's moments are divided among the ranks, and nearly as large as Muon's momentum on each.
    kept = KEPT_WIDTHS * model.width + 2 * (model.mlp - 4 * model.width) + 3 * model.heads * config.row_length
    number_bytes = 4 if train.precision == "fp32" else 2
    activations = programs * TOKENS_PER_PROGRAM * model.layers * kept * number_bytes
    return STATE_BYTES * parameter_count(model) + activations


def checkpoint_bytes(config: Config) -> int:
    """Return the size of a checkpoint: fp32 weights and Adam's two moments, one for Muon's matrices."""
    matrices = config.model.layers * block_matrices(config.model) if config.train.optimizer == "muon" else 0
    return BYTES_FP32 * (3 * parameter_count(config.model) - matrices)


def _estimate(config: Config, flops: float, name: str, device: Device, count: int) -> Estimate:
    per_ms = config.train.steps * config.model.layers / 1000
    seconds = per_ms * device.fixed_ms_per_layer + flops / (count * device.teraflops * 1e12)
    seconds = max(seconds, per_ms * device.host_ms_per_layer)
    # Until the longest sample has ended; in most steps one is cut off.
    drawn = len(config.train.reinforcement_steps) * config.dataset.max_length
    seconds += drawn * config.model.layers / 1000 * device.sampling_ms_per_layer
    usd = seconds / 3600 * count * device.usd_per_hour
    mfu = flops / (seconds * count * device.peak_teraflops * 1e12)
    measured = count == 1 and device.source.startswith("measured:")
    return Estimate(name, count, measured, seconds / 3600, usd, mfu)


@functools.lru_cache(maxsize=1)
def average_program(seed: int, dataset_json: str) -> tuple[float, float]:
    """Return the mean tokens of training programs and pairs that attend, from a small sample.

    Deduplication drops short programs, so datasets have more tokens (2% for ``quick``, 8% for ``paper``).
    """
    dataset = Dataset.model_validate_json(dataset_json)
    counts = {name: getattr(dataset.templates, name).train for name in TEMPLATES}
    used = [name for name in TEMPLATES if counts[name]]
    averages = [_average(seed, dataset, name) for name in progress("sample", used, unit="template")]
    tokens, pairs = np.average(averages, axis=0, weights=[counts[name] for name in used]).tolist()
    return tokens, pairs


def _average(seed: int, dataset: Dataset, name: str) -> tuple[float, float]:
    """Return the means over sampled programs of a template; of any candidates if none of them is true."""
    from cadmus import templates
    from cadmus.vm.compiled import are_true

    draw = templates.Draw(np.random.default_rng(seed_of(seed, name, "plan", 0)), dataset)
    programs = templates.TEMPLATES[name](draw, SAMPLE).programs
    short = programs.lengths <= dataset.max_length
    if not short.any():
        problem = f"all of {SAMPLE} candidates have more than dataset.max_length {dataset.max_length}"
        raise InputError(f"dataset.templates.{name}: {problem} instructions; raise it")
    true = short & are_true(programs)
    tokens = programs.lengths[true if true.any() else short]
    return tokens.mean(), causal_pairs(tokens).mean()
