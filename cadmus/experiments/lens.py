"""Logit lens: the prediction of every layer, as if it were the last one (nostalgebraist, 2020).

All layers of a transformer add to one residual stream, so the output of any of them can go through the final
LayerNorm and the output matrix. The layer from which the loss falls is where the model has computed the next
instruction. The programs are those of the probes: two five-instruction expressions and their comparator.
"""

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.columns import COUNT, LAYER, NONNEGATIVE, POSITIVE
from cadmus.evaluate.results import with_accuracy
from cadmus.experiments.experiment import ACCURACY, OF_LAYERS, TOKEN, Experiment, Figure, Findings, Subject
from cadmus.programs import TOKEN_OF_BYTE
from cadmus.tools import generator, progress


def measure(subject: Subject) -> pl.DataFrame:
    """Logit lens: next instruction predicted at every layer.

    The output of each layer goes through the final LayerNorm and the output matrix, as if it were the last.
    """
    from cadmus.evaluate.comparisons import sample_comparisons

    config, n = subject.config, subject.config.evaluate.lens.programs
    rng = generator(config.seed, "lens")
    programs, _ = sample_comparisons(rng, n, config.dataset, "evaluate.lens.programs")
    tokens = TOKEN_OF_BYTE[programs.data].reshape(n, -1)
    following = np.column_stack([tokens[:, 1:], np.full(n, isa.END_ID)])
    sums = np.zeros((3, 1, 1))
    with progress("lens", total=n, unit="program") as bar:
        for rows, logits in subject.model().layer_logits(programs):
            targets = np.broadcast_to(following[rows], logits.shape[:-1])
            predicted = logits.argmax(-1)
            # The exponential of a logit less the highest one cannot overflow.
            highest = logits.max(-1, keepdims=True)
            total = np.log(np.exp(logits - highest).sum(-1)) + highest[..., 0]
            loss = total - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
            # Sums over the programs: float64, shape (3, layers + 1, tokens).
            counted = np.stack([loss, predicted == predicted[-1], predicted == targets])
            sums = sums + counted.sum(2, dtype=np.float64)
            bar.update(logits.shape[1])
    layer, token = np.indices(sums.shape[1:]).reshape(2, -1)
    loss, agreeing, correct = sums.reshape(3, -1)
    tested = {"layer": layer, "token": token + 1, "programs": np.full(len(loss), n)}
    return with_accuracy(pl.DataFrame({**tested, "loss": loss / n, "agreeing": agreeing, "correct": correct}))


def findings(results: pl.DataFrame) -> Findings:
    """Return loss, agreement and accuracy by layer."""
    from cadmus.templates.expressions import HALF

    programs = pl.col("programs").sum()
    by_layer = results.group_by("layer", maintain_order=True).agg(
        pl.col("loss").mean(),
        (pl.col("agreeing").sum() / programs).alias("agreement"),
        (pl.col("correct").sum() / programs).alias("accuracy"),
        pl.col("accuracy").filter(pl.col("token") == 2 * HALF).first().alias("comparator_accuracy"),
    )
    return Findings(
        f"next instruction over all tokens of {results['programs'][0]:,} programs: loss in nats,\n"
        "agreement with the last layer, accuracy; and accuracy at the comparator",
        by_layer,
    )


EXPERIMENT = Experiment(
    measure=measure,
    columns={
        "layer": LAYER,
        "token": TOKEN,
        "programs": POSITIVE,
        "loss": NONNEGATIVE,
        "agreeing": COUNT,
        "correct": COUNT,
        **ACCURACY,
    },
    rules={
        **OF_LAYERS,
        "agreeing: must be at most programs": pl.col("agreeing") <= pl.col("programs"),
        "token: must be all from 1": pl.col("token").n_unique().over("layer") == TOKEN.high,
    },
    key=("layer", "token"),
    findings=findings,
    figures=(
        Figure(
            "logit_lens",
            "Logit lens: loss of the next instruction at every layer, and how often a layer predicts the "
            "same instruction as the last one. Bright is good in both panels. The scale of the loss ends at "
            "a uniform guess, 4.2 nats; the arrow marks larger losses. White lines end expressions.",
        ),
    ),
)
