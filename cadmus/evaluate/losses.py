"""Losses on the completions of programs."""

from typing import TYPE_CHECKING

import numpy as np

from cadmus import isa
from cadmus.programs import Programs
from cadmus.tools import progress

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

_PROGRAMS_AT_ONCE = 2_048  # each token has 65 log-probabilities: those of all programs would fill the memory


def completion_losses(
    model: "Cadmus", programs: Programs, prompt_length: np.ndarray, bar: bool = False
) -> np.ndarray:
    """Return the mean loss of each completion, its end included, in nats per token: float64, shape (n,).

    With full attention, the length of a completion is in the place of its end.
    """
    if not model.causal:
        # It imports PyTorch.
        from cadmus.model.diffusion import log_likelihoods

        return -log_likelihoods(model, programs, prompt_length) / (programs.lengths - prompt_length + 1)
    completions = programs.suffixes(prompt_length).to_strings()
    losses = np.empty(len(programs))
    starts = range(0, len(programs), _PROGRAMS_AT_ONCE)
    for start in progress("loss", starts) if bar else starts:
        rows = np.arange(start, min(start + _PROGRAMS_AT_ONCE, len(programs)))
        for row, predicted in zip(rows, model.log_probabilities(programs.take(rows)), strict=True):
            following = [isa.TOKEN_ID[symbol] for symbol in completions[row] + isa.END]
            # The last instruction of the prompt predicts the first one of the completion.
            places = prompt_length[row] - 1 + np.arange(len(following))
            losses[row] = -predicted[places, following].mean(dtype=np.float64)
    return losses
