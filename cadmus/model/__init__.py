"""The decoder: ``gpt`` defines it, ``export`` saves and loads it, and ``inference`` runs it.

This module does not import torch.
"""

from pathlib import Path

from cadmus.distribution import CHECKOUT, DATA
from cadmus.errors import InputError, suggest

WEIGHTS = "model.safetensors"
METADATA = "meta.json"
CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
FILES = (WEIGHTS, METADATA, CONFIG, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG)
"""The files of an export."""
CARD = "README.md"
"""The card of a model, which the Hugging Face Hub shows as its page."""
DEFAULT_MODEL = DATA / "models" / "laptop"
"""Directory of the shipped model."""
SNAPSHOTS = CHECKOUT / "docs/models/laptop/snapshots" if CHECKOUT else None
"""Snapshots of its training; a wheel has none."""


def find_model(model: Path | str | None = None) -> Path:
    """Return the directory of a model: a path, the name of a shipped model, or ``laptop`` if it is None."""
    if model is None and not DEFAULT_MODEL.is_dir():
        raise InputError(
            f"{DEFAULT_MODEL}: no model; pass one with --model DIR, or train one with `make run`, "
            "which writes results/quick/model"
        )
    path = DEFAULT_MODEL if model is None else Path(model)
    if path.exists() or path.name != str(model):
        return path
    shipped = sorted(each.name for each in DEFAULT_MODEL.parent.glob("[!.]*") if each.is_dir())
    if path.name not in shipped:
        raise InputError(f"no directory or shipped model {str(model)!r}; {suggest(path.name, shipped)}")
    return DEFAULT_MODEL.parent / path
