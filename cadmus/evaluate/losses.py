"""Losses on the completions of programs."""

from typing import TYPE_CHECKING

import numpy as np

from cadmus.programs import Programs

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus


def completion_losses(
    model: "Cadmus", programs: Programs, prompt_length: np.ndarray, bar: bool = False
) -> np.ndarray:
    """Return the mean loss of each completion, its end included, in nats per token: float64, shape (n,).

    With full attention, the length of a completion is in the place of its end.
    """
    total = model.decoder.log_likelihoods(model, programs, prompt_length, bar)
    return -total / (programs.lengths - prompt_length + 1)
