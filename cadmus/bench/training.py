"""Speed of a training step: ``cadmus train``, its alternatives, and ``transformers``."""

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
from cadmus.bench import Facts, Measured
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.model.export import transformers_config
from cadmus.model.flops import causal_pairs, parameter_count, training_flops
from cadmus.model.gpt import GPT, Attend, attend_eager, attend_sdpa
from cadmus.programs import Programs, stack
from cadmus.templates import TEMPLATES
from cadmus.tools import progress
from cadmus.train import engine
from cadmus.train.batches import PackedBatch, pack_batch
from cadmus.train.labels import NO_TARGET, columns, state_labels
from cadmus.train.objectives import forward, state_loss, training_model

# 5M parameters.
SIZES = config.Model(layers=4, width=320, heads=5, mlp=1280)
# Programs per step.
PROGRAMS = 256
ROW_LENGTHS = (64, 128)
REPEATS = 15
# Size of the square matrices whose product measures the peak rate of the machine.
MATMUL = 1024
# Matrix products per step; they take about as long as a step of training.
PRODUCTS = 50
# The benchmark fails without these.
NEEDED = ("products", "cadmus")
Step = Callable[[], object]
Answer = TypeVar("Answer")


class Way(NamedTuple):
    """A way to make one training step on the same programs.

    Attributes:
        batch: The programs of the step.
        start: Builds the model and returns the step.
    """

    batch: PackedBatch
    start: Callable[[], Step]


class Attending(NamedTuple):
    """An implementation of attention, with or without compiled blocks."""

    attend: Attend
    compiled: bool

    def model(self, sizes: config.Model) -> GPT:
        """Return a new model with this attention."""
        model = GPT(sizes, self.attend)
        if self.compiled:
            model.compile_blocks()
        return model


def forms(device: torch.device) -> dict[str, Attending]:
    """Return the implementations of attention to compare on a device."""
    eager = {"written_out": Attending(attend_eager, False), "fused": Attending(attend_sdpa, False)}
    if device.type == "cpu":
        return eager
    compiled = {f"{name}_compiled": Attending(form.attend, True) for name, form in eager.items()}
    return eager | compiled


def bench_train(run: config.Config | None = None, count: int = PROGRAMS) -> Measured:
    """Measure training steps on true programs of all templates, medians of :data:`REPEATS`.

    On a CPU the ways take turns; a GPU holds one of them at a time.  FLOPs are those of the model for the
    tokens of the programs (:func:`cadmus.model.flops.training_flops`); the peak is the rate of matrix
    products in the precision of a training.  A way that fails, for example out of memory, prints one line on
    standard error and has no row.

    Args:
        run: Config of the model and the templates; None is :data:`SIZES` and the default templates.
        count: Programs per step.

    Raises:
        InputError: One of :data:`NEEDED` fails.
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
        padded = _padded(programs, longest)
        ways = {"cadmus": Way(packed, partial(_engine_step, sizes, device, packed, train))}
        for length, batch in rows.items():
            for name, attending in forms(device).items():
                ways[f"{name}_{length}"] = Way(batch, partial(_step, sizes, device, batch, attending, dtype))
        labels = config.StateLabels() if run is None else run.train.state_labels
        for name, weight in (("packing", 0.0), ("labels", 1.0)):
            given = train.model_copy(update={"state_weight": weight, "state_labels": labels})
            step = partial(_loaded_step, sizes, device, programs, packed.tokens.shape[1], given)
            ways[name] = Way(packed, step)
        ways["padded"] = Way(padded, partial(_engine_step, sizes, device, padded, train))
        for name, batch in (("transformers", packed), ("transformers_padded", padded)):
            for autocast in (False, True)[: 2 if dtype == torch.bfloat16 else 1]:
                key = f"{name}_{'bf16' if autocast else 'fp32'}"
                ways[key] = Way(batch, partial(_transformers_step, sizes, device, batch, autocast))
        products, product_flops = _products(device, dtype)
        seconds = _seconds(
            {"products": lambda: products} | {name: way.start for name, way in ways.items()}, device
        )
    finally:
        engine.stop_process()
    rate, peak = _operations(sizes, programs) / seconds["cadmus"], product_flops / seconds["products"]
    facts: Facts = {
        "parameters": parameter_count(sizes),
        "programs": count,
        "tokens": packed.token_count,
        "repeats": REPEATS,
        "threads": torch.get_num_threads(),
        "bits": 8 * dtype.itemsize,
        "matmul_gflop_per_second": round(peak / 1e9),
        "cadmus_gflop_per_second": round(rate / 1e9),
        "cadmus_share_of_matmul": round(rate / peak, 3),
    }
    for other in ("transformers_fp32", "transformers_bf16", "padded", "transformers_padded_fp32"):
        if other in seconds:
            facts[f"cadmus_over_{other}"] = round(seconds[other] / seconds["cadmus"], 2)
    if "labels" in seconds and "packing" in seconds:
        facts["labels_over_packing"] = round(seconds["packing"] / seconds["labels"], 3)
    table: dict[str, Facts] = {
        name: {
            "tokens_per_second": round(way.batch.token_count / seconds[name]),
            "programs_per_second": round(count / seconds[name]),
            "fill": round(way.batch.token_count / way.batch.tokens.numel(), 3),
        }
        for name, way in ways.items()
        if name in seconds
    }
    return Measured(facts, table)


def _programs(dataset: config.Dataset, count: int) -> Programs:
    """Return ``count`` true programs, the same number of each template, shuffled."""
    each = -(-count // len(TEMPLATES))
    drawn = [sample(dataset, 0, template, "train", 0, each).programs for template in TEMPLATES]
    return stack(drawn).take(np.random.default_rng(0).permutation(each * len(TEMPLATES))[:count])


def _operations(sizes: config.Model, programs: Programs) -> float:
    """Return the FLOPs of the model in a step."""
    lengths = programs.lengths + 1
    return training_flops(sizes, float(lengths.sum()), float(causal_pairs(lengths).sum()))


def _padded(programs: Programs, length: int) -> PackedBatch:
    """Return a batch with one program per row."""
    rows = [pack_batch(programs.take(np.array([i])), np.ones(1), length) for i in range(len(programs))]
    tensors = {
        name: torch.cat([getattr(row, name) for row in rows])
        for name in ("tokens", "positions", "segments", "targets", "completion_mask")
    }
    return PackedBatch(**tensors, programs=len(rows), target_count=sum(row.target_count for row in rows))


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=NO_TARGET)


def _inputs(batch: PackedBatch, device: torch.device) -> list[Tensor]:
    return [tensor.to(device) for tensor in (batch.tokens, batch.positions, batch.segments, batch.targets)]


def _engine_step(sizes: config.Model, device: torch.device, batch: PackedBatch, train: config.Train) -> Step:
    """Return a step through DeepSpeed, as in ``cadmus train``."""
    started = engine.initialize(GPT(sizes), train, 1)
    *given, targets = _inputs(batch, device)

    def step() -> None:
        started.backward(_loss(started(*given), targets))
        started.step()

    return step


def _loaded_step(
    sizes: config.Model, device: torch.device, programs: Programs, row_length: int, train: config.Train
) -> Step:
    """Return a step that also packs the programs and, with ``train.state_weight``, labels them."""
    started = engine.initialize(training_model(sizes, train), train, 1)
    prompt_lengths = np.ones(len(programs))

    def step() -> None:
        labels = state_labels(programs, train.state_labels) if train.state_weight else None
        batch = pack_batch(programs, prompt_lengths, row_length, labels).to(device)
        losses, state_logits = forward(started, batch)
        loss = losses.sum() / batch.target_count
        if batch.labels is not None:
            weights = columns(train.state_labels)
            loss = loss + state_loss(state_logits, batch.labels, weights) / batch.target_count
        started.backward(loss)
        started.step()

    return step


def _step(
    sizes: config.Model,
    device: torch.device,
    batch: PackedBatch,
    attending: Attending,
    dtype: torch.dtype,
) -> Step:
    model = attending.model(sizes).to(device, dtype)
    return partial(_plain_step, model, _inputs(batch, device), _adam(model))


def _transformers_step(sizes: config.Model, device: torch.device, batch: PackedBatch, autocast: bool) -> Step:
    """Return a step of GPT-NeoX, which does not mask the other programs of a row."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    model = GPTNeoXForCausalLM(GPTNeoXConfig(**transformers_config(sizes)))
    model.to(device)

    def logits(tokens: Tensor, *_: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            of_tokens: Tensor = model(input_ids=tokens).logits
            return of_tokens

    return partial(_plain_step, logits, _inputs(batch, device), _adam(model))


def _plain_step(
    logits: Callable[..., Tensor], inputs: list[Tensor], optimizer: torch.optim.Optimizer
) -> None:
    *given, targets = inputs
    _loss(logits(*given), targets).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-4, fused=True)


def _seconds(starts: dict[str, Callable[[], Step]], device: torch.device) -> dict[str, float]:
    """Return the median seconds of a step of each way that does not fail."""
    groups = {"all ways": list(starts)} if device.type == "cpu" else {name: [name] for name in starts}
    taken: dict[str, list[float]] = {}
    for title, names in groups.items():
        taken |= _take_turns(title, {name: starts[name] for name in names}, device)
        _free_memory()
    return {name: statistics.median(times) for name, times in taken.items()}


def _take_turns(
    title: str, starts: dict[str, Callable[[], Step]], device: torch.device
) -> dict[str, list[float]]:
    # No variable keeps a step, so dropping it frees its memory.
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
    """Return the seconds of a step that follows one like it, as in a training."""
    step()
    _wait(device)
    start = time.perf_counter()
    step()
    _wait(device)
    return time.perf_counter() - start


def _attempt(name: str, action: Callable[[], Answer]) -> Answer | None:
    """Return the result of an action; if it fails, print one line and return None.

    Raises:
        InputError: It fails and is one of :data:`NEEDED`.
    """
    try:
        return action()
    except (RuntimeError, ImportError) as error:
        # Out-of-memory errors are RuntimeErrors.
        reason = textwrap.shorten(str(error), 200) or type(error).__name__
    if name in NEEDED:
        raise InputError(f"bench train: {name}: {reason}; if memory is short, reduce --programs")
    # A plain print would share its line with the progress bar.
    tqdm.write(f"bench train: {name}: {reason}", file=sys.stderr)
    return None


def _free_memory() -> None:
    # DeepSpeed's engine is in a reference cycle.
    gc.collect()
    torch.cuda.empty_cache()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _products(device: torch.device, dtype: torch.dtype) -> tuple[Step, float]:
    """Return a step of matrix products and its FLOPs."""
    size = MATMUL if device.type == "cpu" else 8 * MATMUL
    a, b = torch.randn(2, size, size, device=device).to(dtype)

    def step() -> None:
        for _ in range(PRODUCTS):
            torch.matmul(a, b)

    return step, PRODUCTS * 2.0 * size**3
