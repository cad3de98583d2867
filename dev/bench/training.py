"""Speed of a training step: ``cadmus train``, its alternatives, and ``transformers``.

One process trains on the same true programs of all templates in several ways:

* ``cadmus`` as ``cadmus train``: packed rows, DeepSpeed;
* ``written_out_64``, ``fused_64``, … eager attention or SDPA, rows of 64 or 128 tokens, no DeepSpeed; on a
  GPU also with compiled blocks;
* ``transformers_fp32``, … GPT-NeoX of transformers, bf16 by autocast.

On a CPU the ways take turns; a GPU holds one of them at a time. A way that fails, for example out of memory,
prints one line and has no row. Padding does not count as tokens; ``fill`` is the fraction of the others.
"""

import gc
import statistics
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cadmus import config as configs
from cadmus.dataset.sampler import sample
from cadmus.model.export import transformers_config
from cadmus.model.flops import causal_pairs, parameter_count, training_flops
from cadmus.model.gpt import GPT, attend_eager, attend_sdpa
from cadmus.programs import stack
from cadmus.templates import TEMPLATES
from cadmus.tools import progress
from cadmus.train import engine
from cadmus.train.batches import PackedBatch, pack_batch
from cadmus.train.labels import NO_TARGET
from dev.measure import Facts, flat, seconds_of

SIZES = configs.Model(layers=4, width=320, heads=5, mlp=1280)
"""5M parameters."""
ROW_LENGTHS = (64, 128)
REPEATS = 15
MATMUL, PRODUCTS = 1024, 50
"""Size of the matrices whose product measures the peak rate of the machine, and products per step."""
Step = Callable[[], object]
Form = Callable[[configs.Model], GPT]


def forms(device: torch.device) -> dict[str, Form]:
    """Return models with each implementation of attention for a device."""

    def form(attend: Any, compiled: bool, sizes: configs.Model) -> GPT:
        model = GPT(sizes, attend)
        if compiled:
            model.compile_blocks()
        return model

    attends = {"written_out": (attend_eager, False), "fused": (attend_sdpa, False)}
    if device.type != "cpu":
        attends |= {"written_out_compiled": (attend_eager, True), "fused_compiled": (attend_sdpa, True)}
    return {name: partial(form, *how) for name, how in attends.items()}


def train(config: Path | None = None, programs: int = 256) -> Facts:
    """Measure steps of a model, :data:`SIZES` by default; FLOPs are those for the tokens of the programs."""
    run = configs.load_config(config) if config else None
    sizes, dataset = (run.model, run.dataset) if run else (SIZES, configs.Dataset())
    each = -(-programs // len(TEMPLATES))
    drawn = stack([sample(dataset, 0, template, "train", 0, each).programs for template in TEMPLATES])
    drawn = drawn.take(np.random.default_rng(0).permutation(len(drawn))[:programs])
    longest = int(drawn.lengths.max()) + 1
    rows = {length: pack_batch(drawn, np.ones(programs), max(length, longest)) for length in ROW_LENGTHS}
    device = engine.start_process()
    try:
        given = engine.with_precision(configs.Train(recipe="paper", steps=1, batch_size=programs), device)
        dtype = torch.bfloat16 if given.precision == "bf16" else torch.float32
        products, product_flops = _products(device, dtype)
        inputs = {length: _inputs(batch, device) for length, batch in rows.items()}
        packed, short = rows[ROW_LENGTHS[0]], inputs[ROW_LENGTHS[0]]
        starts = {"products": lambda: products, "cadmus": partial(_engine_step, sizes, short, given)}
        batches = {"cadmus": packed}
        for length, batch in rows.items():
            for name, form in forms(device).items():
                batches[f"{name}_{length}"] = batch
                starts[f"{name}_{length}"] = partial(_step, form, sizes, inputs[length], dtype)
        for kind in ("fp32", "bf16")[: 2 if dtype == torch.bfloat16 else 1]:
            name = f"transformers_{kind}"
            batches[name] = packed
            starts[name] = partial(_transformers_step, sizes, short, kind == "bf16")
        seconds = _seconds(starts, device)
    finally:
        engine.stop_process()
    lengths = drawn.lengths + 1
    flops = training_flops(sizes, float(lengths.sum()), float(causal_pairs(lengths).sum()))
    rate, peak = flops / seconds["cadmus"], product_flops / seconds["products"]
    facts: Facts = {
        "parameters": parameter_count(sizes),
        "programs": programs,
        "tokens": packed.token_count,
        "repeats": REPEATS,
        "threads": torch.get_num_threads(),
        "bits": 8 * dtype.itemsize,
        "matmul_gflop_per_second": round(peak / 1e9),
        "cadmus_gflop_per_second": round(rate / 1e9),
        "cadmus_share_of_matmul": round(rate / peak, 3),
    }
    others = [name for name in seconds if name.startswith("transformers")]
    facts |= {f"cadmus_over_{name}": round(seconds[name] / seconds["cadmus"], 2) for name in others}
    table = {
        name: {
            "tokens_per_second": round(batch.token_count / seconds[name]),
            "programs_per_second": round(programs / seconds[name]),
            "fill": round(batch.token_count / batch.tokens.numel(), 3),
        }
        for name, batch in batches.items()
        if name in seconds
    }
    return flat(facts, table)


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=NO_TARGET)


def _inputs(batch: PackedBatch, device: torch.device) -> list[Tensor]:
    return [tensor.to(device) for tensor in (batch.tokens, batch.positions, batch.segments, batch.targets)]


def _engine_step(sizes: configs.Model, inputs: list[Tensor], train: configs.Train) -> Step:
    """Return a step through DeepSpeed, as in ``cadmus train``."""
    started = engine.initialize(GPT(sizes), train, inputs[0].device)
    *given, targets = inputs

    def step() -> None:
        started.backward(_loss(started(*given), targets))
        started.step()

    return step


def _step(form: Form, sizes: configs.Model, inputs: list[Tensor], dtype: torch.dtype) -> Step:
    model = form(sizes).to(inputs[0].device, dtype)
    return _plain_step(model, model.parameters(), inputs)


def _transformers_step(sizes: configs.Model, inputs: list[Tensor], autocast: bool) -> Step:
    """Return a step of GPT-NeoX, which does not mask the other programs of a row."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    device = inputs[0].device
    model = GPTNeoXForCausalLM(GPTNeoXConfig(**transformers_config(sizes))).to(device)

    def logits(tokens: Tensor, *_: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            return model(input_ids=tokens).logits

    return _plain_step(logits, model.parameters(), inputs)


def _plain_step(logits: Callable[..., Tensor], parameters: Any, inputs: list[Tensor]) -> Step:
    optimizer = torch.optim.AdamW(parameters, 1e-4, fused=True)
    *given, targets = inputs

    def step() -> None:
        _loss(logits(*given), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _products(device: torch.device, dtype: torch.dtype) -> tuple[Step, float]:
    """Return a step of matrix products, in the precision of a training, and its FLOPs."""
    size = MATMUL if device.type == "cpu" else 8 * MATMUL
    a, b = torch.randn(2, size, size, device=device).to(dtype)

    def step() -> None:
        for _ in range(PRODUCTS):
            torch.matmul(a, b)

    return step, PRODUCTS * 2.0 * size**3


def _seconds(starts: dict[str, Callable[[], Step]], device: torch.device) -> dict[str, float]:
    """Return the median seconds of a step of each way that does not fail."""
    groups = [list(starts)] if device.type == "cpu" else [[name] for name in starts]
    taken: dict[str, list[float]] = {}
    for names in groups:
        steps: dict[str, Step] = {}
        for repeat in progress("train", range(REPEATS + 2), unit="repeats"):
            for name in names:
                try:
                    if repeat == 0:
                        steps[name] = starts[name]()
                    elif name in steps:
                        taken.setdefault(name, []).append(_time(steps[name], device))
                except (RuntimeError, ImportError) as error:
                    # Out-of-memory errors are RuntimeErrors.
                    reason = textwrap.shorten(str(error), 200) or type(error).__name__
                    print(f"bench train: {name}: {reason}", file=sys.stderr)
                    steps.pop(name, None)
                    taken.pop(name, None)
        # No other variable keeps a step, but DeepSpeed's engine is in a reference cycle.
        steps.clear()
        gc.collect()
        torch.cuda.empty_cache()
    # The first time includes what a process needs once.
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def _time(step: Step, device: torch.device) -> float:
    """Return the seconds of a step that follows one like it, as in a training."""

    def whole() -> None:
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    whole()
    return seconds_of(whole)
