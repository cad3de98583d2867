"""What a run will take, before it starts: parameters, tokens, FLOPs, disk, hours and cost.

Nothing is trained and no dataset is made for it, and neither torch nor deepspeed is imported.
"""

import functools
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cadmus import isa
from cadmus.config import TEMPLATES, Config, Dataset, Model
from cadmus.dataset import shards
from cadmus.dataset.sampler import seed_of
from cadmus.errors import InputError, meant
from cadmus.files import read_table
from cadmus.progress import progress
from cadmus.templates import TEMPLATES as DRAWN
from cadmus.templates import Candidates, Draw
from cadmus.vm.compiled import verdicts

DEVICES = Path(__file__).parent.parent / "config" / "devices.tsv"
"""The devices that are told about, with what they achieve and cost."""
SAMPLE = 8_192
"""Candidates drawn of each template to see how long its programs are."""
COLUMNS = ("device", "counts", "teraflops", "usd_per_hour", "source")


@dataclass(frozen=True)
class Device:
    """One row of the table of devices, for one number of them.

    Attributes:
        name: of one device.
        count: how many there are.
        teraflops: what one achieves in training, in 10^12 operations a second.
        usd_per_hour: price of one.
        source: where the two come from.
    """

    name: str
    count: int
    teraflops: float
    usd_per_hour: float
    source: str


@dataclass(frozen=True)
class Estimate:
    """Time and price of a training on ``device``."""

    device: Device
    hours: float
    usd: float


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
    """What a config asks for.  ``tokens`` and what follows from them are estimates from a sample.

    Attributes:
        name: of the run.
        parameters, parameters_without_embeddings: of the model; embeddings are those of input and output.
        programs, tokens: of the training set, one epoch.
        shards, dataset_bytes: files of the dataset, all splits, and what they take on the disk.
        steps, batch_size, ranks: as configured.
        trained_programs, trained_tokens, epochs: over all steps.
        flops: of the training, see :func:`training_flops`.
        estimates: hours and cost on each device of the table.
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
    ranks: int
    trained_programs: int
    trained_tokens: int
    epochs: float
    flops: float
    estimates: tuple[Estimate, ...]


def plan(config: Config, devices: Path = DEVICES) -> Plan:
    """What a training with ``config`` takes.

    Args:
        config: the run.
        devices: the table of devices, see :func:`read_devices`.

    Raises:
        InputError: the table of devices is missing or wrong, or a template gives no program that fits.
    """
    train = config.train
    wanted = read_devices(devices, train.ranks)
    average = average_program(config)
    programs = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    trained = train.steps * train.batch_size
    flops = training_flops(config.model, trained * average.tokens, trained * average.pairs)
    files = shards.plan(config)
    return Plan(
        name=config.name,
        parameters=parameter_count(config.model),
        parameters_without_embeddings=parameter_count(config.model) - _embeddings(config.model),
        programs=programs,
        tokens=round(programs * average.tokens),
        shards=len(files),
        dataset_bytes=round(sum(shard.rows for shard in files) * average.bytes),
        steps=train.steps,
        batch_size=train.batch_size,
        ranks=train.ranks,
        trained_programs=trained,
        trained_tokens=round(trained * average.tokens),
        epochs=trained / programs,
        flops=flops,
        estimates=tuple(_estimate(flops, device) for device in wanted),
    )


def parameter_count(sizes: Model) -> int:
    """Parameters of :class:`cadmus.model.gpt.GPT`, by formula."""
    width, mlp = sizes.width, sizes.mlp
    biases = 3 * width + width + mlp + width
    layer_norms = 2 * 2 * width
    final_layer_norm = 2 * width
    return (
        _embeddings(sizes) + sizes.layers * (block_matrices(sizes) + biases + layer_norms) + final_layer_norm
    )


def training_flops(sizes: Model, tokens: float, pairs: float) -> float:
    """Floating-point operations of forward and backward passes, those of the model alone.

    6 · M · tokens + 12 · layers · width · pairs, where M counts the parameters of the matrices that every
    token is multiplied with: layers · (4 · width² + 2 · width · mlp) in the blocks, and vocabulary · width
    in the output.  A parameter takes a multiplication and an addition for each token, and twice that
    backward.  A pair of tokens takes 2 · width of them for the score and again for the weighted sum, in each
    layer.  Norms, the softmax, padding and the optimizer are left out.

    Args:
        sizes: of the model.
        tokens: all that are trained on, the ends included.
        pairs: of a token and one that it attends to, over all these tokens.
    """
    matrices = sizes.layers * block_matrices(sizes) + isa.VOCABULARY_SIZE * sizes.width
    return 6 * matrices * tokens + 12 * sizes.layers * sizes.width * pairs


def flops_so_far(config: Config, programs: int, tokens: int) -> float:
    """:func:`training_flops` of so many programs and tokens, whose pairs are those of the average program."""
    return training_flops(config.model, tokens, programs * average_program(config).pairs)


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
    """The devices of a table of tab-separated values, each in the numbers that its column counts asks for.

    Args:
        path: a table with the columns ``COLUMNS``; lines that begin with # are comments.
        ranks: what the word ``ranks`` stands for in the column counts.

    Raises:
        InputError: as :func:`cadmus.files.read_table`, or a value is no number above 0.
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
    raise InputError(f"{path}: no device {name!r}; {meant(name, (row['device'] for row in rows))}")


def _of_row(row: dict[str, str], path: Path, ranks: int) -> list[Device]:
    number = functools.partial(_number, row, path)
    values = number("teraflops"), number("usd_per_hour")
    counts = row["counts"].replace("ranks", str(ranks)).split()
    wanted = sorted({int(number("counts", text)) for text in counts or [""]})
    return [Device(row["device"], count, *values, row["source"]) for count in wanted]


def _number(row: dict[str, str], path: Path, column: str, text: str | None = None) -> float:
    text = row[column] if text is None else text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    # Written so that NaN is refused as well; half a device is none.
    if not 0 < value < float("inf") or (column == "counts" and value != int(value)):
        what = "whole numbers above 0, or ranks" if column == "counts" else "a number above 0"
        raise InputError(f"{path}: {row['device']}: {column}: {what} should stand here, not {text!r}")
    return value


def _estimate(flops: float, device: Device) -> Estimate:
    hours = flops / (device.count * device.teraflops * 1e12) / 3600
    return Estimate(device, hours, hours * device.count * device.usd_per_hour)


def _embeddings(sizes: Model) -> int:
    return isa.VOCABULARY_SIZE * sizes.width * (1 if sizes.tied else 2)


def block_matrices(sizes: Model) -> int:
    """Parameters of the matrices of one block: query, key, value and output, and the two of the MLP."""
    return 4 * sizes.width**2 + 2 * sizes.width * sizes.mlp


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
