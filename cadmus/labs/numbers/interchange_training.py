"""Interchange intervention training: a model shall answer by the variable that is labeled alone.

State supervision puts a variable of the VM into the state, such as the difference of two numbers, but the
blocks after it may read something else, such as the numbers that training compares. So the rest of a state is
exchanged with that of another program, its donor, while the answer stays. This is right for the causal model
in which the answer follows from the variable (Geiger et al. 2022), also where the donor has numbers that no
program compares. The variable has the directions that the layers for state supervision read.

Shape suffixes: as in :mod:`cadmus.model.gpt`, with K exchanged states and C directions.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cadmus import config
from cadmus.labs.numbers.settings import INTERCHANGED, InterchangeTraining
from cadmus.programs import Programs
from cadmus.tools import generator
from cadmus.train.heads import BlockEdit, Head, normalized
from cadmus.train.objectives.objective import Objective
from cadmus.train.objectives.state_supervision import NUMBER_LABELS, SCALE
from cadmus.train.packing import Supervision, Tokens

EXCHANGE = "exchange"
"""Name of an :class:`Exchange` among what a batch has for the model."""
_COMPARATORS = np.frombuffer(b"<=>", np.uint8)


class Exchange(NamedTuple):
    """States that are exchanged, donors that they get the rest from, and by how much they are moved.

    The first two are instructions in ``programs.data`` or, once packed, tokens in the rows of a batch: int64,
    shape (K,). The last is float32, in integers.
    """

    states: Tensor
    donors: Tensor
    shift: Tensor


def choose(
    rng: np.random.Generator,
    programs: Programs,
    learned: np.ndarray,
    known: np.ndarray,
    settings: InterchangeTraining,
) -> Exchange:
    """Choose states where the variable decides the next token, before a comparator that ends a program.

    Programs that are not ``learned``, bool of shape (n,), are label-only and become donors; the variable has
    a label after the instructions of ``programs.data`` that are ``known``.
    """
    end = programs.offsets[1:] - programs.offsets[0]
    decided = learned & (programs.lengths > 1) & np.isin(programs.data[end - 1], _COMPARATORS)
    # The instruction before the comparator, whose state decides it; without one, the last.
    answering = np.where(decided, end - 2, end - 1)
    donors = answering[(decided | ~learned) & known[answering]]
    states = answering[decided & known[answering]]
    states = states[rng.random(len(states)) < settings.fraction]
    # Half of the states stay where they are, so that the model sees both.
    shift = rng.uniform(-settings.shift, settings.shift, len(states)) * (rng.random(len(states)) < 0.5)
    donors = rng.choice(donors, len(states))
    return Exchange(*map(torch.from_numpy, (states, donors, shift.astype(np.float32))))


def exchanged(x_RLD: Tensor, weight_CD: Tensor, exchange: Exchange) -> Tensor:
    """Return the output of a block with the states exchanged; they keep their norm.

    ``weight_CD`` reads the variable of the normalized output. A shift moves what the first direction reads
    and not what the second one does. Nothing is learned through a donor.
    """
    x_TD = x_RLD.flatten(0, 1)
    # The directions are learned by their labels alone.
    weight_CD = weight_CD.detach().float()
    basis_DC = torch.linalg.qr(weight_CD.T)[0]

    def split(n_KD: Tensor) -> tuple[Tensor, Tensor]:
        kept_KD = n_KD @ basis_DC @ basis_DC.T
        return kept_KD, n_KD - kept_KD

    own_KD = x_TD[exchange.states].float()
    kept_KD, rest_KD = split(normalized(own_KD))
    _, other_KD = split(normalized(x_TD[exchange.donors].float()).detach())
    other_KD = other_KD * (rest_KD.detach().norm(dim=1, keepdim=True) / other_KD.norm(dim=1, keepdim=True))
    # The least change of the state that moves the first output by 1 and no other.
    moving_C = torch.zeros(len(weight_CD), device=weight_CD.device)
    moving_C[0] = 1 / SCALE
    moved_KD = exchange.shift[:, None] * (torch.linalg.pinv(weight_CD) @ moving_C)
    new_KD = (kept_KD + other_KD + moved_KD) * own_KD.square().mean(1, keepdim=True).sqrt()
    return x_TD.index_copy(0, exchange.states, new_KD.to(x_TD.dtype)).view_as(x_RLD)


class Exchanges(Supervision):
    """Chooses the states of a micro-batch that are exchanged, after state supervision has labeled them."""

    def __init__(self, run: config.Config, seed: int) -> None:
        self._settings, self._seed = InterchangeTraining.below(run.train), seed
        self._column = list(run.train.state_labels.numbers()).index(INTERCHANGED[0])

    def annotate(self, tokens: Tokens) -> None:
        drawn = tokens.drawn
        rng = generator(self._seed, "interchange", drawn.step, drawn.micro_batch)
        # The difference exists where the second number does.
        known = ~np.isnan(tokens.columns[NUMBER_LABELS][1][:, self._column])
        chosen = choose(rng, drawn.programs, drawn.targets > 0, known, self._settings)
        index = torch.from_numpy(tokens.index)
        tokens.extras[EXCHANGE] = Exchange(index[chosen.states], index[chosen.donors], chosen.shift)


class Interchange(Objective):
    """Has no loss of its own: the answers of the states that it exchanges are those of the next token."""

    @classmethod
    def supervision(cls, run: config.Config, seed: int) -> Supervision:
        return Exchanges(run, seed)

    @classmethod
    def edit(cls, run: config.Config) -> BlockEdit:
        def change(layer: int, x_RLD: Tensor, heads: Mapping[str, Head], exchange: Exchange) -> Tensor:
            # The head that reads the variable.
            head = heads["pair"]
            return exchanged(x_RLD, head.weight, exchange) if layer == head.layer else x_RLD

        return BlockEdit(EXCHANGE, change)


OBJECTIVE = Interchange
