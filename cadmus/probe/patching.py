"""Causal check of where the numbers are: a hidden state of one comparison is put into another.

At the end of an expression, token 5 or 10 of ``expression expression comparator``, the output of one layer is
exchanged for that of another program (the donor), and the model goes on from there.  If that state holds the
number that the rest of the computation uses, the predicted comparator becomes that of the donor's number
and the program's other one (the hybrid).  Pairs are drawn so that the comparators of the program, of the
donor and of the hybrid are three different ones.
"""

from typing import Any

import numpy as np
import polars as pl

from cadmus.common.progress import progress
from cadmus.config import Values
from cadmus.errors import InputError
from cadmus.evaluate.comparisons import HALF, sample_comparisons
from cadmus.evaluate.intervals import wilson
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.probe.sizes import DRAWN_PER_PAIR
from cadmus.templates.draw import comparator

OUTCOMES = ("own", "hybrid", "donor", "other")
"""Whose comparator is predicted: the program's, that of the hybrid, the donor's, or none of these."""
TOKENS = (HALF, 2 * HALF)
_PAIRS_AT_ONCE = 1 << 20


def patching(
    model: Any, n: int, layers: int, values: Values, eval_fraction: float, seed: int
) -> pl.DataFrame:
    """Whose comparator follows when a hidden state is exchanged, for each layer and both tokens.

    Args:
        model: has ``next_logits(prompts)`` and ``patched_logits(prompts, donors, layer, token)`` as
            :class:`cadmus.model.Cadmus` does.
        n: pairs for each token; those of which the model gets the program or the donor wrong as they are do
            not count.
        layers: blocks of the model.
        values: the range of the training set; all values lie in it.
        eval_fraction: as the training set was split; only programs of the test split are used.
        seed: of the programs.

    Returns:
        token (from 1), layer (0 the embedding, k the output of block k), outcome, programs (pairs that
        count), predicted (as the outcome says), share, low, high (null where no pair counts).

    Raises:
        InputError: the range holds too few held-out programs.
    """
    rng = np.random.default_rng([seed, *b"patching"])
    wanted_by = "evaluate.patch_programs"
    programs, of = sample_comparisons(rng, DRAWN_PER_PAIR * n, values, eval_fraction, wanted_by)
    prompts = programs.prefixes(np.full(len(programs), 2 * HALF))
    own = TOKEN_OF_BYTE[comparator(of["x"], of["y"])]
    known = model.next_logits(prompts).argmax(-1) == own
    rows = []
    for token in TOKENS:
        pair, hybrid = _pairs(rng, n, token, of, own, wanted_by)
        counted = known[pair].all(0)
        (program, donor), hybrid = pair[:, counted], hybrid[counted]
        answers = np.stack([own[program], hybrid, own[donor]])
        for layer in progress(f"patch token {token}", range(layers + 1)):
            predicted = model.patched_logits(
                prompts.take(program), prompts.take(donor), layer, token - 1
            ).argmax(-1)
            hits = (predicted == answers).sum(1).tolist()
            for outcome, count in zip(OUTCOMES, [*hits, len(program) - sum(hits)], strict=True):
                rows.append((token, layer, outcome, len(program), count))
    numbers = pl.DataFrame(rows, ["token", "layer", "outcome", "programs", "predicted"], orient="row")
    pairs, predicted = numbers["programs"].to_numpy(), numbers["predicted"].to_numpy()
    low, high = wilson(predicted, pairs)
    found = {"share": predicted / np.maximum(pairs, 1), "low": low, "high": high}
    return numbers.with_columns(
        pl.when(pl.col("programs") > 0).then(pl.Series(name, column)).alias(name)
        for name, column in found.items()
    )


def _pairs(
    rng: np.random.Generator,
    n: int,
    token: int,
    of: dict[str, np.ndarray],
    own: np.ndarray,
    wanted_by: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Programs and donors, int64 of shape (2, n), and the tokens of the hybrids' comparators."""
    pair = rng.integers(len(own), size=(2, _PAIRS_AT_ONCE))
    program, donor = pair
    x = of["x"][donor if token == HALF else program]
    y = of["y"][program if token == HALF else donor]
    hybrid = TOKEN_OF_BYTE[comparator(x, y)]
    distinct = (own[program] != own[donor]) & (own[program] != hybrid) & (own[donor] != hybrid)
    found = np.flatnonzero(distinct)[:n]
    if len(found) < n:
        raise InputError(
            f"{wanted_by}: {n} pairs with three different comparators are wanted, {len(found)} were found; "
            "ask for fewer or widen dataset.values"
        )
    return pair[:, found], hybrid[found]
