"""Speed of greedy completion, compared with ``generate`` of ``transformers``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from cadmus import config, isa
from cadmus.dataset.sampler import sample
from cadmus.model.inference import Cadmus
from cadmus.programs import BYTE_OF_TOKEN, TOKEN_OF_BYTE, Programs, stack
from cadmus.templates import TEMPLATES
from dev.measure import ROOT, Facts, flat, median_seconds

EACH = 64
"""Prompts of each template."""
REPEATS = 3


def decode(model: Path = ROOT / "models/laptop") -> Facts:
    """Complete test prompts of all templates greedily, in one batch and in fp32, as transformers does."""
    ours = Cadmus.load(model, batch_size=EACH * len(TEMPLATES))
    max_length = config.Dataset().max_length
    drawn = [sample(config.Dataset(), 0, template, "test", 0, EACH) for template in TEMPLATES]
    prompts = stack([of.programs.prefixes(of.prompt_length.astype(np.int64)) for of in drawn])
    generate = _transformers(model, prompts, max_length)

    def complete() -> list[str]:
        completions, ended = ours.complete(prompts, max_length)
        texts = zip(completions.to_strings(), ended, strict=True)
        return [text + isa.END * bool(end) for text, end in texts]

    seconds = median_seconds({"cadmus": complete, "transformers": generate}, REPEATS)
    same = [a == b for a, b in zip(complete(), generate(), strict=True)]
    facts = {
        "parameters": sum(parameter.numel() for parameter in ours.model.parameters()),
        "programs": len(prompts),
        "repeats": REPEATS,
        "threads": torch.get_num_threads(),
        "ratio": round(seconds["transformers"] / seconds["cadmus"], 2),
        "same_completions": round(float(np.mean(same)), 4),
    }
    rows = {name: {"programs_per_second": round(len(prompts) / taken, 1)} for name, taken in seconds.items()}
    return flat(facts, rows)


def _transformers(directory: Path, prompts: Programs, max_length: int) -> Callable[[], list[str]]:
    """Return a function that completes the prompts with ``transformers``."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory)
    width = int(prompts.lengths.max())
    tokens = np.full((len(prompts), width), isa.END_ID)
    # Prompts are padded on the left.
    seen = np.arange(width) >= width - prompts.lengths[:, None]
    tokens[seen] = TOKEN_OF_BYTE[prompts.data]
    mask = torch.from_numpy(seen.astype(np.int64))
    room = max_length - prompts.lengths

    def complete() -> list[str]:
        whole = model.generate(
            input_ids=torch.from_numpy(tokens),
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=int(room.max()),
        )
        texts = []
        for row, most in zip(whole[:, width:].numpy(), room, strict=True):
            body, end, _ = BYTE_OF_TOKEN[row].tobytes().decode("ascii").partition(isa.END)
            # A program of maximum length is cut off before its end.
            texts.append(body + end if len(body) < most else body[:most])
        return texts

    return complete
