"""The order of templates during a training: curricula and self-paced sampling."""

from typing import NamedTuple

import numpy as np

from cadmus.config import TEMPLATES, Dataset, Train

STAGED = 0.5
"""Fraction of the steps after which a staged training draws from all templates."""
SMALLEST = 0.01
"""Smallest error that counts: no template is left out of a self-paced training."""
_DECAY = 0.95
"""Weight of the errors before in the running mean."""


class Pace(NamedTuple):
    """State on which the programs of a step depend, besides seed and step.

    Attributes:
        drawn: programs drawn of each template before it.
        errors: running mean of the error of each template.
    """

    drawn: list[int]
    errors: list[float]


def ordered_templates(train: Train, dataset: Dataset) -> list[str] | None:
    """Return the templates with training programs, in the order of stages; None if all are mixed."""
    if train.order == "mixed":
        return None
    return [name for name in TEMPLATES if getattr(dataset.templates, name).train]


def weights(train: Train, counts: np.ndarray, step: int, errors: list[float]) -> np.ndarray:
    """Return the sampling weight of each template in a step: float64, shape (templates,).

    Args:
        train: decides the order and the number of steps.
        counts: training programs of each template.
        step: counted from 0.
        errors: of each template, see :func:`updated`.
    """
    if train.order == "self_paced":
        return np.maximum(errors, SMALLEST)
    started = 1 + int(len(counts) * step / (STAGED * train.steps))
    return np.where(np.arange(len(counts)) < started, counts, 0).astype(np.float64)


def updated(errors: list[float], wrong: list[float], tokens: list[float]) -> list[float]:
    """Return the running mean of the errors after a step.

    Args:
        errors: before the step.
        wrong: sum over the completion tokens of each template of the probability that the model gives to
            other tokens.
        tokens: number of these tokens; the error of a template without any stays.
    """
    return [
        _DECAY * error + (1 - _DECAY) * wrong_ / count if count else error
        for error, wrong_, count in zip(errors, wrong, tokens, strict=True)
    ]
