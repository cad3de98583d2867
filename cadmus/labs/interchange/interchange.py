"""Interchange interventions: the variables of the VM that a model uses, and their directions in each layer.

Probes find what a state encodes, interchange what the model uses. After the token that gives a variable its
value, the state of one layer is exchanged with that of another program, the source: the whole state
(activation patching), or only its part in a subspace. If the rest of the computation reads the variable
there, the answer is the counterfactual one (:mod:`cadmus.evaluate.prompts.counterfactuals`). The subspace is
learned from other pairs, as in distributed alignment search (Geiger et al. 2024); a random one of the same
size is the control.
"""

from typing import get_args

import polars as pl

from cadmus.columns import COUNT, LAYER, POSITIVE, one_of
from cadmus.config.evaluation import Variable
from cadmus.errors import InputError
from cadmus.evaluate.statistics.results import with_accuracy
from cadmus.experiments.experiment import ACCURACY, Experiment, Figure, Subject, Summary
from cadmus.labs.interchange.settings import Interchange
from cadmus.tools import progress, seed_of

METHODS = ("state", "learned", "random")
"""Part that is exchanged: all of the state, or a learned or a random subspace of it."""


def measure(subject: Subject) -> pl.DataFrame:
    """Interchange interventions: which variables of the VM are used.

    The state of a program is exchanged with that of another one, in full or in a subspace, after the token
    that gives a variable its value. The results count how often the answer is then the counterfactual one.
    """
    from cadmus.evaluate.prompts.counterfactuals import VARIABLES, counterfactuals
    from cadmus.labs.interchange.patching import counterfactual_answers, pairs_of, subspaces

    config, model = subject.config, subject.model()
    settings = Interchange.below(config.evaluate)
    width = model.sizes.width
    if settings.directions > width:
        raise InputError(
            f"evaluate.interchange.directions: must be at most the width of the model, {width}, got "
            f"{settings.directions}"
        )
    rows = []
    seeds = [seed_of(config.seed, "interchange", use) for use in ("learn", "test")]
    for variable in progress("interchange", settings.variables or list(VARIABLES)):
        tables = [counterfactuals(variable, settings.programs, seed, config.dataset) for seed in seeds]
        learned, tested = (pairs_of(model, table) for table in tables)
        for layer in range(model.sizes.layers + 1):
            seed = seed_of(config.seed, variable, layer)
            bases = {"state": None, **subspaces(model, learned, layer, settings.directions, seed)}
            for method in METHODS:
                size = width if method == "state" else settings.directions
                # A subspace needs a pair to be learned from.
                pairs = len(tested.token) if method in bases else 0
                correct = counterfactual_answers(model, tested, layer, bases[method]) if pairs else 0
                rows.append((variable, layer, method, size, pairs, correct))
    names = ["variable", "layer", "method", "directions", "programs", "correct"]
    return with_accuracy(pl.DataFrame(rows, names, orient="row"))


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracies of the best layer of each variable and method."""
    best = results.group_by("variable", "method", maintain_order=True).agg(
        pl.all().get(pl.col("accuracy").arg_max().fill_null(0))
    )
    layers = best.filter(method="learned").select("variable", "layer", "programs")
    table = best.pivot("method", index="variable", values="accuracy").join(
        layers, "variable", maintain_order="left"
    )
    size = results.filter(method="random")["directions"].item(0)
    return Summary(
        f"counterfactual answers after an exchange of the whole state or of {size} of its directions,\n"
        "learned or random, each in its best layer; and the layer of the learned ones",
        table.select("variable", *METHODS, "layer", "programs"),
    )


EXPERIMENT = Experiment(
    measure=measure,
    seconds=81,
    needs="hidden states",
    attention="causal",
    columns={
        "variable": one_of(get_args(Variable)),
        "layer": LAYER,
        "method": one_of(METHODS),
        "directions": POSITIVE,
        "programs": COUNT,
        "correct": COUNT,
        **ACCURACY,
    },
    rules={
        "method: must be all of each variable": pl.col("method").n_unique().over("variable") == len(METHODS),
    },
    summary=summarize,
    figures=(
        Figure(
            "interchange",
            "Interchange interventions: how often the answer of a program is the counterfactual one when "
            "its state, after the token that gives a variable its value, is exchanged with that of another "
            "program: the whole state, a learned subspace of it, or a random one of the same size. Only "
            "pairs that the model answers rightly without an exchange count. Their counterfactual answer is "
            "another one, so accuracy is 0 where the state is not used. Bands: 95% intervals.",
            module="cadmus.labs.interchange.figure",
        ),
    ),
)
