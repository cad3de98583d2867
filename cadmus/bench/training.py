"""The speed of training: the model as it is trained, other ways to do the same, and ``transformers``."""

import gc
import statistics
import sys
import textwrap
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from cadmus import config
from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.model.attention import Attend, attend_eager, attend_sdpa
from cadmus.model.export import transformers_config
from cadmus.model.flops import parameter_count, training_flops
from cadmus.model.gpt import GPT
from cadmus.programs import Programs, stack
from cadmus.templates import TEMPLATES
from cadmus.train import engine
from cadmus.train.packing import NO_TARGET, PackedBatch, pack_batch

SIZES = config.Model(layers=4, width=320, heads=5, mlp=1280)
"""Five million parameters."""
PROGRAMS = 256
"""Programs of a step."""
ROW_LENGTHS = (64, 128)
REPEATS = 15
MATMUL = 1024
"""Rows and columns of the matrices whose product is the measure of what the machine can do."""
PRODUCTS = 50
"""Such products in a step; they take about as long as a step of training."""
BUCKETS = 8
"""Groups of programs of like length, instead of packed rows."""
NEEDED = ("products", "cadmus")
"""What the others are compared with."""
Step = Callable[[], object]
Answer = TypeVar("Answer")


class Way(NamedTuple):
    """A way to make one training step on the same programs.

    Attributes:
        name: a key of what is measured.
        start: makes the model; returns what makes a step.
        tokens: tokens of the programs and their ends.
        computed: tokens computed, padding included.
    """

    name: str
    start: Callable[[], Step]
    tokens: int
    computed: int


class Attending(NamedTuple):
    """A form of attention, with or without the blocks being compiled."""

    attend: Attend
    compiled: bool

    def model(self, sizes: config.Model) -> GPT:
        """A new model that attends so."""
        model = GPT(sizes, self.attend)
        if self.compiled:
            model.compile_blocks()
        return model


def forms(device: torch.device) -> dict[str, Attending]:
    """The forms of attention to compare on a device."""
    eager = {"written_out": Attending(attend_eager, False), "fused": Attending(attend_sdpa, False)}
    if device.type == "cpu":
        return eager
    compiled = {f"{name}_compiled": Attending(form.attend, True) for name, form in eager.items()}
    return eager | compiled


def bench_train(run: config.Config | None = None, count: int = PROGRAMS) -> Measured:
    """Steps of training on true programs of all templates, each way the median of :data:`REPEATS`, before
    each of which is one that does not count.  On a CPU the ways take turns; a GPU has one of them at a time.

    The share of the machine is of the operations that the model needs for the tokens of the programs (see
    :func:`cadmus.model.flops.training_flops`), beside the rate of products of square matrices, in the
    precision that a training has on it.

    A way that fails, for example out of memory, is one line on standard error and has no keys.

    Args:
        run: of which the model and the templates are; if None, :data:`SIZES` and the templates as they are
            by default.
        count: programs of a step.

    Raises:
        InputError: one of :data:`NEEDED` fails.
    """
    sizes, dataset = (SIZES, config.Dataset()) if run is None else (run.model, run.dataset)
    programs = _programs(dataset, count)
    longest = int(programs.lengths.max()) + 1
    device = engine.start_process()
    try:
        train = engine.with_precision(config.Train(recipe="paper", steps=1, batch_size=count), device)
        dtype = torch.bfloat16 if train.precision == "bf16" else torch.float32
        rows = {length: pack_batch(programs, np.ones(count), max(length, longest)) for length in ROW_LENGTHS}
        packed = rows[ROW_LENGTHS[0]]
        padded = _padded(programs, np.arange(count), longest)
        buckets = _buckets(programs)
        ways = [
            _way("cadmus", [packed], partial(_engine_step, sizes, device, packed, train)),
            *(
                _way(f"{name}_{length}", [of], partial(_step, sizes, device, [of], attending, dtype))
                for length, of in rows.items()
                for name, attending in forms(device).items()
            ),
            _way("buckets", buckets, partial(_step, sizes, device, buckets, None, dtype)),
            _way("padded", [padded], partial(_engine_step, sizes, device, padded, train)),
            *(
                _way(name, [of], partial(_transformers_step, sizes, device, of, autocast))
                for name, of, autocast in (
                    ("transformers_fp32", packed, False),
                    ("transformers_bf16", packed, True),
                    ("transformers_padded_fp32", padded, False),
                    ("transformers_padded_bf16", padded, True),
                )
                if dtype == torch.bfloat16 or not autocast
            ),
        ]
        products, operations_of_products = _products(device, dtype)
        seconds = _seconds({"products": lambda: products} | {way.name: way.start for way in ways}, device)
        matmul = operations_of_products / seconds["products"]
    finally:
        engine.stop_process()
    operations = _operations(sizes, programs)
    measured: Measured = {"parameters": parameter_count(sizes), "programs": count}
    measured |= {"tokens": packed.token_count, "repeats": REPEATS, "threads": torch.get_num_threads()}
    measured["bits"] = 8 * dtype.itemsize
    for way in (way for way in ways if way.name in seconds):
        measured[f"{way.name}_tokens_per_second"] = round(way.tokens / seconds[way.name])
        measured[f"{way.name}_programs_per_second"] = round(count / seconds[way.name])
        measured[f"{way.name}_fill"] = round(way.tokens / way.computed, 3)
    measured["matmul_gflop_per_second"] = round(matmul / 1e9)
    measured["cadmus_gflop_per_second"] = round(operations / seconds["cadmus"] / 1e9)
    measured["cadmus_share_of_matmul"] = round(operations / seconds["cadmus"] / matmul, 3)
    for other in ("transformers_fp32", "transformers_bf16", "padded", "transformers_padded_fp32"):
        if other in seconds:
            measured[f"cadmus_over_{other}"] = round(seconds[other] / seconds["cadmus"], 2)
    return measured


def _programs(dataset: config.Dataset, count: int) -> Programs:
    """The same number of true programs of each template, in an order without meaning."""
    each = -(-count // len(TEMPLATES))
    drawn = [sample(dataset, 0, template, "train", 0, each).programs for template in TEMPLATES]
    return stack(drawn).take(np.random.default_rng(0).permutation(each * len(TEMPLATES))[:count])


def _operations(sizes: config.Model, programs: Programs) -> float:
    """Floating-point operations of a step, those of the model alone."""
    lengths = programs.lengths + 1
    return training_flops(sizes, float(lengths.sum()), float(np.sum(lengths * (lengths + 1) / 2)))


def _padded(programs: Programs, which: np.ndarray, length: int) -> PackedBatch:
    """One program a row."""
    rows = [pack_batch(programs.take(which[i : i + 1]), np.ones(1), length) for i in range(len(which))]
    return PackedBatch(
        tokens=torch.cat([row.tokens for row in rows]),
        positions=torch.cat([row.positions for row in rows]),
        segments=torch.cat([row.segments for row in rows]),
        targets=torch.cat([row.targets for row in rows]),
        completion_mask=torch.cat([row.completion_mask for row in rows]),
        programs=len(rows),
        target_count=sum(row.target_count for row in rows),
    )


def _buckets(programs: Programs) -> list[PackedBatch]:
    groups = np.array_split(np.argsort(programs.lengths, kind="stable"), BUCKETS)
    return [_padded(programs, group, int(programs.lengths[group].max()) + 1) for group in groups]


def _way(name: str, batches: list[PackedBatch], start: Callable[[], Step]) -> Way:
    tokens, computed = sum(of.token_count for of in batches), sum(of.tokens.numel() for of in batches)
    return Way(name, start, tokens, computed)


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=NO_TARGET)


def _inputs(of: PackedBatch, device: torch.device) -> list[Tensor]:
    return [tensor.to(device) for tensor in (of.tokens, of.positions, of.segments, of.targets)]


def _engine_step(sizes: config.Model, device: torch.device, of: PackedBatch, train: config.Train) -> Step:
    """Through DeepSpeed, as in a training."""
    started = engine.initialize(GPT(sizes), train, 1)
    *given, targets = _inputs(of, device)

    def step() -> None:
        started.backward(_loss(started(*given), targets))
        started.step()

    return step


def _step(
    sizes: config.Model,
    device: torch.device,
    batches: list[PackedBatch],
    attending: Attending | None,
    dtype: torch.dtype,
) -> Step:
    model = (attending.model(sizes) if attending else GPT(sizes)).to(device, dtype)
    return partial(_plain_step, model, [_inputs(of, device) for of in batches], _adam(model))


def _transformers_step(sizes: config.Model, device: torch.device, of: PackedBatch, autocast: bool) -> Step:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    model = GPTNeoXForCausalLM(GPTNeoXConfig(**transformers_config(sizes)))
    model.to(device)

    def logits(tokens: Tensor, *_: Tensor) -> Tensor:
        """As rows of plain text; what belongs to another program is not masked."""
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            of_tokens: Tensor = model(input_ids=tokens).logits
            return of_tokens

    return partial(_plain_step, logits, [_inputs(of, device)], _adam(model))


def _plain_step(
    logits: Callable[..., Tensor], inputs: list[list[Tensor]], optimizer: torch.optim.Optimizer
) -> None:
    for *given, targets in inputs:
        loss = _loss(logits(*given), targets) / len(inputs)
        loss.backward()  # type: ignore[no-untyped-call]  # as torch has it
    optimizer.step()
    optimizer.zero_grad()


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-4, fused=True)


def _seconds(starts: dict[str, Callable[[], Step]], device: torch.device) -> dict[str, float]:
    """Median seconds of a step of each way that does not fail."""
    # A GPU has no room for all models, and little else to do meanwhile.
    groups = {"all ways": list(starts)} if device.type == "cpu" else {name: [name] for name in starts}
    taken: dict[str, list[float]] = {}
    for title, names in groups.items():
        taken |= _take_turns(title, {name: starts[name] for name in names}, device)
        _free_memory()
    return {name: statistics.median(times) for name, times in taken.items()}


def _take_turns(
    title: str, starts: dict[str, Callable[[], Step]], device: torch.device
) -> dict[str, list[float]]:
    """Seconds of the steps of each way that does not fail."""
    # No variable keeps a step, so that dropping it frees its memory.
    built = ((name, _attempt(name, start)) for name, start in starts.items())
    steps = {name: step for name, step in built if step is not None}
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in progress(title, range(REPEATS + 1), unit="repeats"):
        for name in list(steps):
            seconds = _attempt(name, partial(_time, steps[name], device))
            if seconds is None:
                del steps[name], taken[name]
                _free_memory()
            elif repeat:
                taken[name].append(seconds)
    return taken


def _time(step: Step, device: torch.device) -> float:
    """Seconds of a step."""
    # A step of a training follows one like it.
    step()
    _wait(device)
    start = time.perf_counter()
    step()
    _wait(device)
    return time.perf_counter() - start


def _attempt(name: str, action: Callable[[], Answer]) -> Answer | None:
    """What the action returns; None, and a line on standard error, if it fails.

    Raises:
        InputError: it fails and is one of :data:`NEEDED`.
    """
    try:
        return action()
    except (RuntimeError, ImportError) as error:
        # Running out of memory is a RuntimeError.
        reason = textwrap.shorten(str(error), 200) or type(error).__name__
    if name in NEEDED:
        raise InputError(f"bench train: {name}: {reason}; if memory is short, reduce --programs")
    # Printed, it would share its line with the bar.
    tqdm.write(f"bench train: {name}: {reason}", file=sys.stderr)
    return None


def _free_memory() -> None:
    """Return the memory of dropped models to the device."""
    # The engine of DeepSpeed refers to itself.
    gc.collect()
    torch.cuda.empty_cache()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _products(device: torch.device, dtype: torch.dtype) -> tuple[Step, float]:
    """Products of square matrices, and their operations."""
    size = MATMUL if device.type == "cpu" else 8 * MATMUL
    a, b = torch.randn(2, size, size, device=device).to(dtype)

    def step() -> None:
        for _ in range(PRODUCTS):
            torch.matmul(a, b)

    return step, PRODUCTS * 2.0 * size**3
