"""The speed of greedy completion, beside ``generate`` of ``transformers`` on the same export and prompts."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from cadmus import config, isa
from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.dataset.sampler import sample
from cadmus.model.inference import Cadmus
from cadmus.model.tokens import BYTE_OF_TOKEN, TOKEN_OF_BYTE
from cadmus.programs import Programs, stack
from cadmus.templates import TEMPLATES

EACH = 64
"""Prompts of each template."""
REPEATS = 3


def bench_decode(directory: Path) -> Measured:
    """Complete :data:`EACH` held-out prompts of each template in one batch, each way in turn, in fp32.

    Each time is the median of :data:`REPEATS`.

    Raises:
        InputError: ``directory`` is no export.
    """
    model = Cadmus.load(directory, batch_size=EACH * len(TEMPLATES))
    longest = config.Dataset().max_length
    prompts = _prompts()
    ways = {
        "cadmus": lambda: _ours(model, prompts, longest),
        "transformers": _theirs(directory, prompts, longest),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    completions = {}
    for _ in progress("repeats", range(REPEATS)):
        for name, complete in ways.items():
            start = time.perf_counter()
            completions[name] = complete()
            seconds[name].append(time.perf_counter() - start)
    taken = {name: statistics.median(times) for name, times in seconds.items()}
    same = [
        ours == theirs
        for ours, theirs in zip(completions["cadmus"], completions["transformers"], strict=True)
    ]
    return {
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "programs": len(prompts),
        "repeats": REPEATS,
        "threads": torch.get_num_threads(),
        **{f"{name}_programs_per_second": round(len(prompts) / taken[name], 1) for name in ways},
        "ratio": round(taken["transformers"] / taken["cadmus"], 2),
        "same_completions": round(float(np.mean(same)), 4),
    }


def _prompts() -> Programs:
    drawn = [sample(config.Dataset(), 0, template, "test", 0, EACH) for template in TEMPLATES]
    return stack([of.programs.prefixes(of.prompt_length.astype(np.int64)) for of in drawn])


def _ours(model: Cadmus, prompts: Programs, longest: int) -> list[str]:
    completions, ended = model.complete(prompts, longest)
    return [text + isa.END * bool(end) for text, end in zip(completions.to_strings(), ended, strict=True)]


def _theirs(directory: Path, prompts: Programs, longest: int) -> Callable[[], list[str]]:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory)
    width = int(prompts.lengths.max())
    tokens = np.full((len(prompts), width), isa.END_ID)
    # A prompt ends where generation begins.
    seen = np.arange(width) >= width - prompts.lengths[:, None]
    tokens[seen] = TOKEN_OF_BYTE[prompts.data]
    mask = torch.from_numpy(seen.astype(np.int64))
    room = longest - prompts.lengths

    def complete() -> list[str]:
        whole = model.generate(
            input_ids=torch.from_numpy(tokens),
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=int(room.max()),
        )
        found = whole[:, width:].numpy()
        texts = []
        for row, most in zip(found, room, strict=True):
            text = BYTE_OF_TOKEN[row].tobytes().decode("ascii")
            body, end, _ = text.partition(isa.END)
            # A full program is cut off before its end.
            texts.append(body + end if len(body) < most else body[:most])
        return texts

    return complete
