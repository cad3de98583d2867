"""The logit lens: what each layer would say next, if it were the last one.

The output of every layer goes through the final LayerNorm and the output matrix (nostalgebraist, 2020).  The
programs are those of the probes: two five-instruction expressions and their comparator.
"""

from typing import Any

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.common.progress import progress
from cadmus.config import Values
from cadmus.evaluate.comparisons import sample_comparisons
from cadmus.evaluate.results import with_accuracy
from cadmus.model.tokens import TOKEN_OF_BYTE


def logit_lens(model: Any, n: int, values: Values, eval_fraction: float, seed: int) -> pl.DataFrame:
    """How good the prediction of the next instruction is, layer by layer and token by token.

    Args:
        model: has ``layer_logits(programs)`` as :class:`cadmus.model.Cadmus` does.
        n: programs to look at, of the test split.
        values: the range of the training set; both values lie in it.
        eval_fraction: as the training set was split.
        seed: of the programs.

    Returns:
        layer (0 the embedding, k the output of block k), token (from 1), programs, loss (nats, of the next
        instruction, the end included), agreeing (programs of which the likeliest instruction is the last
        layer's), correct (of which it is the program's own), accuracy, low, high.

    Raises:
        InputError: the range holds too few held-out programs.
    """
    rng = np.random.default_rng([seed, *b"lens"])
    programs, _ = sample_comparisons(rng, n, values, eval_fraction, "evaluate.lens_programs")
    tokens = TOKEN_OF_BYTE[programs.data].reshape(n, -1)
    following = np.column_stack([tokens[:, 1:], np.full(n, isa.END_ID)])
    sums = np.zeros((3, 1, 1))
    with progress("lens", total=n, unit="program") as bar:
        for rows, logits in model.layer_logits(programs):
            own = np.broadcast_to(following[rows], logits.shape[:-1])
            likeliest = logits.argmax(-1)
            highest = logits.max(-1, keepdims=True)
            total = np.log(np.exp(logits - highest).sum(-1)) + highest[..., 0]
            loss = total - np.take_along_axis(logits, own[..., None], -1)[..., 0]
            # Sums over the programs: float64, shape (3, layers + 1, tokens).
            found = np.stack([loss, likeliest == likeliest[-1], likeliest == own])
            sums = sums + found.sum(2, dtype=np.float64)
            bar.update(logits.shape[1])
    loss, agreeing, correct = sums
    layers, positions = np.indices(loss.shape)
    return with_accuracy(
        pl.DataFrame(
            {
                "layer": layers.ravel(),
                "token": positions.ravel() + 1,
                "programs": n,
                "loss": loss.ravel() / n,
                "agreeing": agreeing.ravel().astype(np.int64),
                "correct": correct.ravel().astype(np.int64),
            }
        )
    )
