"""Speed of a training step: ``cadmus train`` and ``transformers``.

``cadmus`` are whole steps of real trainings (:mod:`dev.bench.steps`), with labels and optimizer, in as many
ranks as a user gets. ``transformers_fp32`` and ``_bf16``, by autocast, are GPT-NeoX in one process, on true
programs of all templates.

A way that fails, for example out of memory, prints one line and has no row. Padding does not count as tokens.
"""

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
from cadmus.model.flops import parameter_count
from cadmus.programs import concat
from cadmus.tools import progress
from cadmus.train import NO_TARGET
from cadmus.train.packing import Drawn, pack_batch
from dev.bench import steps
from dev.measure import ROOT, Facts, exclusive, flat, seconds_of

REPEATS = 15
Step = Callable[[], object]


def train(config: Path = ROOT / "config/laptop.yaml") -> Facts:
    """Measure steps of a config."""
    run = configs.load_config(config)
    whole = steps.train_steps(run)
    inputs, tokens = _batch(run)
    starts = {}
    for kind in ("fp32", "bf16")[: 2 if whole["bits"] == 16 else 1]:
        starts[f"transformers_{kind}"] = partial(_transformers_step, run.model, inputs, kind == "bf16")
    table = {name: {"tokens_per_second": round(tokens / taken)} for name, taken in _seconds(starts).items()}
    ratios = {
        f"cadmus_over_{name}": round(whole["tokens_per_second"] / row["tokens_per_second"], 2)
        for name, row in table.items()
        if name.startswith("transformers")
    }
    settings = {
        "parameters": parameter_count(run.model),
        "threads": torch.get_num_threads(),
        "repeats": REPEATS,
    }
    return flat(settings | ratios, {"cadmus": whole, **table})


def _batch(run: configs.Config) -> tuple[list[Tensor], int]:
    """Return tokens, positions, segments and targets of true programs, and the number of tokens."""
    programs = run.train.batch_size
    names = configs.OF_THE_PAPER
    each = -(-programs // len(names))
    drawn = concat([sample(run.dataset, 0, name, "train", 0, each).programs for name in names])
    drawn = drawn.take(np.random.default_rng(0).permutation(len(drawn))[:programs])
    packed = pack_batch(Drawn.of(drawn, np.ones(programs)), run.row_length)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tensors = (packed.tokens, packed.positions, packed.segments, packed.targets)
    return [tensor.to(device) for tensor in tensors], packed.token_count


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
        predicted = logits(*given).flatten(0, 1).float()
        F.cross_entropy(predicted, targets.flatten(), ignore_index=NO_TARGET).backward()
        optimizer.step()
        optimizer.zero_grad()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return step


def _seconds(starts: dict[str, Callable[[], Step]]) -> dict[str, float]:
    """Return the median seconds of a step of each way that does not fail; they are in memory in turn."""
    taken: dict[str, float] = {}
    for name in progress("train", starts, unit="way"):
        try:
            step = starts[name]()
            # The first time includes what a process needs once.
            step()
            with exclusive():
                taken[name] = statistics.median(seconds_of(step) for _ in range(REPEATS))
        except (RuntimeError, ImportError) as error:
            # Out-of-memory errors are RuntimeErrors.
            reason = textwrap.shorten(str(error), 200) or type(error).__name__
            print(f"bench train: {name}: {reason}", file=sys.stderr)
        step = None
        torch.cuda.empty_cache()
    return taken
