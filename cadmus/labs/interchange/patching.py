"""Interchange interventions on a model: states of programs, exchanged in full or in a subspace.

Shape suffixes: as in :mod:`cadmus.model.gpt`, with K directions.
"""

from typing import NamedTuple

import polars as pl
import torch
from torch import Tensor
from torch.nn import functional as F

from cadmus.evaluate.prompts.counterfactuals import first_tokens, rightly_answered
from cadmus.model.inference import Cadmus, one_thread
from cadmus.programs import Programs

STEPS, BATCH, RATE = 40, 64, 0.02  # of Adam, which learns a subspace
POINTS = 4  # between the two states of a pair, at which gradients attribute an answer to directions


class Pairs(NamedTuple):
    """Pairs of prompts that the model answers rightly, and its states for them."""

    base: list[Tensor]
    """The output of each layer: (n, L, D)."""
    source: list[Tensor]
    """Its states after the token with the variable: (n, D) each."""
    token: Tensor
    """Place of the variable in a base: int64, shape (n,), as are the others."""
    end: Tensor
    """The last token of each base."""
    answer: Tensor
    """The token that is counterfactually right."""
    value: Tensor
    """Of the variable in the base."""
    change: Tensor
    """Its value in the source, less that."""


def pairs_of(model: Cadmus, table: pl.DataFrame) -> Pairs:
    """Return the states of those pairs that a model gets right."""
    rows = rightly_answered(model, table)
    programs = {side: Programs.from_strings(table[side]) for side in ("base", "source")}
    index = torch.arange(len(rows), device=model.device)
    states, tokens = {}, {}
    for side, prompts in programs.items():
        tokens[side] = torch.from_numpy(table[f"{side}_token"].to_numpy()[rows]).to(model.device)
        states[side] = model.states(prompts.take(rows)) if len(rows) else []
    value, source_value = (table[f"{side}_value"].to_numpy()[rows] for side in ("base", "source"))
    answer = first_tokens(table["answer"])[rows]
    return Pairs(
        states["base"],
        [x_RLD[index, tokens["source"]] for x_RLD in states["source"]],
        tokens["base"],
        torch.from_numpy(programs["base"].lengths[rows] - 1).to(model.device),
        torch.from_numpy(answer).to(model.device),
        torch.from_numpy(value).to(model.device),
        torch.from_numpy(source_value - value).to(model.device),
    )


def counterfactual_answers(model: Cadmus, pairs: Pairs, layer: int, basis_DK: Tensor | None) -> int:
    """Count the answers that are the counterfactual one after an exchange; see :func:`exchanged_logits`."""
    with torch.inference_mode():
        answers = exchanged_logits(model, pairs, layer, basis_DK).argmax(1)
    return int((answers == pairs.answer).sum())


def subspaces(model: Cadmus, pairs: Pairs, layer: int, directions: int, seed: int) -> dict[str, Tensor]:
    """Return ``random`` directions and, if there are pairs, those ``learned`` from them: (D, K) each."""
    rng = torch.Generator().manual_seed(seed % 2**63)  # seeds have 128 bits, PyTorch takes 64
    random_DK = torch.randn(model.sizes.width, directions, generator=rng).to(model.device)
    if not len(pairs.token):
        return {"random": random_DK}
    return {"random": random_DK, "learned": learned_basis(model, pairs, layer, directions, rng)}


def attributions(model: Cadmus, pairs: Pairs, layer: int, directions_FD: Tensor) -> Tensor:
    """Return how much an exchange along each direction alone favors the counterfactual answers: shape (F,).

    That is the mean change of their log-probability, to first order, by the gradients at some points between
    the two states of a pair (integrated gradients, Sundararajan et al. 2017).
    """
    unit_FD = F.normalize(directions_FD.to(pairs.base[layer]), dim=1)
    index = torch.arange(len(pairs.token), device=model.device)
    change_RD = pairs.source[layer] - pairs.base[layer][index, pairs.token]
    effect_F = torch.zeros(len(unit_FD), device=model.device)
    for point in range(POINTS):
        moved_RD = ((point + 0.5) / POINTS * change_RD).requires_grad_()  # midpoint rule
        x_RLD = pairs.base[layer].index_put((index, pairs.token), moved_RD, accumulate=True)
        loss = F.cross_entropy(model.logits_from(x_RLD, layer, pairs.end), pairs.answer, reduction="sum")
        (gradient_RD,) = torch.autograd.grad(loss, [moved_RD])
        effect_F -= ((change_RD @ unit_FD.T) * (gradient_RD @ unit_FD.T)).mean(0)
    return effect_F / POINTS


def exchanged_logits(
    model: Cadmus, pairs: Pairs, layer: int, basis_DK: Tensor | None, rows: Tensor | slice = slice(None)
) -> Tensor:
    """Return the logits after the bases, the span of a basis, or all, exchanged after a layer: (n, V)."""
    x_RLD, token = pairs.base[layer][rows].clone(), pairs.token[rows]
    index = torch.arange(len(x_RLD), device=x_RLD.device)
    change_RD = pairs.source[layer][rows] - x_RLD[index, token]
    if basis_DK is not None:
        orthonormal_DK = torch.linalg.qr(basis_DK)[0]  # Adam's steps do not keep a basis orthonormal
        change_RD = change_RD @ orthonormal_DK @ orthonormal_DK.T
    x_RLD = x_RLD.index_put((index, token), change_RD, accumulate=True)
    return model.logits_from(x_RLD, layer, pairs.end[rows])


@one_thread()  # several round sums otherwise, which the steps amplify
def learned_basis(model: Cadmus, pairs: Pairs, layer: int, directions: int, rng: torch.Generator) -> Tensor:
    """Learn the directions whose exchange gives the counterfactual answers: shape (D, K)."""
    change_RD = pairs.source[layer] - pairs.base[layer][torch.arange(len(pairs.token)), pairs.token]
    # From the one that changes with the value, and those in which the states of a pair differ most.
    with_value_D1 = F.normalize(change_RD.T @ pairs.change.to(change_RD)[:, None], dim=0)
    most_DK = torch.linalg.svd(change_RD, full_matrices=False)[2][: directions - 1].T
    start_DK = torch.cat([with_value_D1, most_DK], 1)
    # Padding alone would be zeros, which have no direction; there may be fewer pairs than directions.
    noise_DK = 1e-3 * torch.randn(len(start_DK), directions, generator=rng).to(start_DK)
    basis_DK = (F.pad(start_DK, (0, directions - start_DK.shape[1])) + noise_DK).requires_grad_()
    optimizer = torch.optim.Adam([basis_DK], lr=RATE)
    for _ in range(STEPS):
        rows = torch.randint(len(pairs.token), (BATCH,), generator=rng).to(pairs.token.device)
        loss = F.cross_entropy(exchanged_logits(model, pairs, layer, basis_DK, rows), pairs.answer[rows])
        (basis_DK.grad,) = torch.autograd.grad(loss, [basis_DK])
        optimizer.step()
    return basis_DK.detach()
