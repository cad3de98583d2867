"""Speed of greedy completion, compared with ``generate`` of ``transformers``."""

from pathlib import Path

import numpy as np
import torch

from cadmus import config
from cadmus.dataset.sampler import sample
from cadmus.model.inference import Cadmus
from cadmus.programs import stack
from cadmus.templates import TEMPLATES
from dev.measure import ROOT, Facts, flat, median_seconds

EACH = 64
"""Prompts of each template."""
REPEATS = 3


def decode(model: Path = ROOT / "models/laptop") -> Facts:
    """Complete test prompts of all templates greedily, in one batch and in fp32, as transformers does."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ours = Cadmus.load(model, batch_size=EACH * len(TEMPLATES))
    theirs, tokenizer = (of.from_pretrained(model) for of in (AutoModelForCausalLM, AutoTokenizer))
    most = config.Dataset().max_length
    drawn = [sample(config.Dataset(), 0, template, "test", 0, EACH) for template in TEMPLATES]
    prompts = stack([of.programs.prefixes(of.prompt_length.astype(np.int64)) for of in drawn])
    texts, new_tokens = prompts.to_strings(), most - int(prompts.lengths.min())
    batch = tokenizer(texts, padding=True, return_tensors="pt")

    def complete() -> list[str]:
        completions, _ = ours.complete(prompts, most)
        return [prompt + text for prompt, text in zip(texts, completions.to_strings(), strict=True)]

    def generate() -> list[str]:
        tokens = theirs.generate(**batch, do_sample=False, max_new_tokens=new_tokens)
        # A program of maximum length is cut off before its end.
        return [text[:most] for text in tokenizer.batch_decode(tokens, skip_special_tokens=True)]

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
