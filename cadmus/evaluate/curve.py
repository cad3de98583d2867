"""Accuracy on each sub-problem along a training, against the compute it has taken so far."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.common.progress import progress
from cadmus.config import Evaluate
from cadmus.errors import InputError
from cadmus.evaluate.completion import complete
from cadmus.evaluate.results import accuracy_by
from cadmus.model import METADATA
from cadmus.model.export import read_metadata


def accuracy_by_compute(
    snapshots: Sequence[Path], load: Callable[[Path], Any], table: Any, max_length: int, settings: Evaluate
) -> pl.DataFrame:
    """Grade the snapshots of a training one after another.

    Args:
        snapshots: exports, in the order of their steps.
        load: gives the model of an export, with the methods that :func:`cadmus.evaluate.completion.complete`
            needs.
        table, max_length: as for that function.
        settings: how many programs of each template.

    Returns:
        step, tokens (trained on so far), flops (of the forward and backward passes for them), template,
        metric, programs, correct, accuracy, low, high.

    Raises:
        InputError: a snapshot does not say how long it was trained.
    """
    rows = []
    for path in progress("snapshots", snapshots):
        noted = read_metadata(path)
        missing = [key for key in ("steps", "tokens", "flops") if key not in noted]
        if missing:
            raise InputError(f"{path / METADATA}: says nothing of {missing[0]}; give snapshots of a training")
        compute = {"step": noted["steps"], "tokens": noted["tokens"], "flops": noted["flops"]}
        completions = complete(load(path), table, max_length, settings.snapshot_programs)
        graded = accuracy_by(completions, "template")
        rows.append(graded.select(*(pl.lit(value).alias(name) for name, value in compute.items()), pl.all()))
    return pl.concat(rows)
