"""Activation patching: where a model holds the values it compares.

Probes find what a hidden state encodes, patching what the model uses. At the end of an expression, token 5
or 10 of ``expression expression comparator``, the output of one layer is replaced by that of another program,
the donor. If it holds the value that the rest of the computation uses, the predicted comparator becomes the
one for the donor's value and the program's other value (the hybrid). Pairs are drawn so that the comparators
of the program, the donor and the hybrid differ.
"""

import numpy as np
import polars as pl

from cadmus.errors import InputError
from cadmus.evaluate.results import with_accuracy
from cadmus.experiments.experiment import Experiment, Figure, Findings, Subject
from cadmus.programs import TOKEN_OF_BYTE
from cadmus.tools import generator, progress

OUTCOMES = ("own", "hybrid", "donor", "other")
"""Whose comparator is predicted: that of the program, the hybrid, the donor, or none of these."""
DRAWN_PER_PAIR = 10
_PAIRS_AT_ONCE = 1 << 20


def measure(subject: Subject) -> pl.DataFrame:
    """Activation patching at the end of an expression.

    The hidden state of a program is replaced by that of another one, the donor. The results count how often
    the model then predicts the comparator of the program, of the donor, or of one value from each.
    """
    from cadmus.evaluate.comparisons import HALF, sample_comparisons
    from cadmus.templates.draw import comparator

    config, model = subject.config, subject.model()
    n, wanted_by = config.evaluate.patch.programs, "evaluate.patch.programs"
    rng = generator(config.seed, "patching")
    programs, of = sample_comparisons(rng, DRAWN_PER_PAIR * n, config.dataset, wanted_by)
    prompts = programs.prefixes(np.full(len(programs), 2 * HALF))
    own = TOKEN_OF_BYTE[comparator(of["x"], of["y"])]
    known = np.zeros(len(own), np.bool_)
    rows = []
    for token in (HALF, 2 * HALF):
        pair = rng.integers(len(own), size=(2, _PAIRS_AT_ONCE))
        program, donor = pair
        x = of["x"][donor if token == HALF else program]
        y = of["y"][program if token == HALF else donor]
        hybrid = TOKEN_OF_BYTE[comparator(x, y)]
        distinct = (own[program] != own[donor]) & (own[program] != hybrid) & (own[donor] != hybrid)
        found = np.flatnonzero(distinct)[:n]
        if len(found) < n:
            raise InputError(
                f"{wanted_by}: {n} pairs with three different comparators are wanted, {len(found)} were "
                "found; ask for fewer or widen dataset.values"
            )
        # Pairs in which the model gets the program or the donor wrong do not count.
        used = np.unique(pair[:, found])
        known[used] = model.next_logits(prompts.take(used)).argmax(-1) == own[used]
        found = found[known[pair[:, found]].all(0)]
        (program, donor), hybrid = pair[:, found], hybrid[found]
        answers = np.stack([own[program], hybrid, own[donor]])
        for layer in progress(f"patch token {token}", range(model.sizes.layers + 1)):
            predicted = model.patched_logits(
                prompts.take(program), prompts.take(donor), layer, token - 1
            ).argmax(-1)
            hits = (predicted == answers).sum(1).tolist()
            for outcome, count in zip(OUTCOMES, [*hits, len(program) - sum(hits)], strict=True):
                rows.append((token, layer, outcome, len(program), count))
    results = pl.DataFrame(rows, ["token", "layer", "outcome", "programs", "correct"], orient="row")
    return with_accuracy(results).rename({"correct": "predicted", "accuracy": "share"})


def findings(results: pl.DataFrame) -> Findings:
    """Return the fraction of pairs with each outcome by layer, for both tokens."""
    from cadmus.evaluate.comparisons import HALF

    table = results.select("layer").unique(maintain_order=True)
    patched = []
    for value, token in {"x": HALF, "y": 2 * HALF}.items():
        of_token = results.filter(token=token)
        shares = of_token.pivot("outcome", index="layer", values="share")
        table = table.join(shares.rename({name: f"{value}_{name}" for name in OUTCOMES}), "layer")
        patched.append(f"{value.upper()} (token {token}, {of_token['programs'][0]:,} pairs)")
    return Findings(
        f"predicted comparator after patching {' or '.join(patched)}, by layer;\n"
        "own: X and Y original; hybrid: patched value from donor, other original; donor: both from donor",
        table,
    )


EXPERIMENT = Experiment(
    measure=measure,
    columns={
        **{"token": int, "layer": int, "outcome": str, "programs": int, "predicted": int},
        **dict.fromkeys(("share", "low", "high"), float),
    },
    findings=findings,
    figures=(
        Figure(
            "patching",
            "Activation patching: the comparator that the model predicts after the hidden state of token 5 "
            "(the end of the first expression, X) or 10 (the end of the second, Y) is replaced by that of "
            "another program, the donor. If the state holds the value, the comparator is the one for the "
            "donor's value and the program's other value. Without patching it is the program's own in all "
            "pairs, because only pairs that the model gets right count. Bands: 95% intervals.",
        ),
    ),
)
