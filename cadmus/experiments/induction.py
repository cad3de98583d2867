"""Induction against the exact posterior: how far a model is from the best possible learner.

In-context induction is implicit Bayesian inference (Xie et al. 2022), and here the posterior over functions
is known. For each prompt the model's distribution over what a definition computes, estimated from samples,
is compared with it, by the number of examples and by how many functions these leave.
"""

import numpy as np
import polars as pl

from cadmus.columns import COUNT, FLAG, FRACTION, NONNEGATIVE, POSITIVE, PROGRAM, one_of
from cadmus.config import OOD
from cadmus.evaluate.results import induction_by
from cadmus.experiments.experiment import Experiment, Figure, Findings, Subject
from cadmus.tools import progress, seed_of


def measure(subject: Subject) -> pl.DataFrame:
    """Induction from 1 to 8 examples, against the exact posterior.

    Definitions are sampled and grouped by what they compute. The total variation to the posterior is compared
    with that of as many samples of the posterior itself. If a rule keeps functions out of training, prompts
    of these are asked as well.
    """
    from cadmus.dataset.sampler import sample
    from cadmus.evaluate.posterior import posterior, prior
    from cadmus.model.induction import computes, votes

    config, model = subject.config, subject.model()
    settings = config.evaluate.induction
    rules = config.dataset.rules_for("complete_algorithm").values()
    splits = ("test", *[OOD] * any(rule.functions is not None for rule in rules))
    # An example and its share of the definition have about seven instructions, at least.
    most = max(1, min(settings.examples, config.dataset.max_length // 7))
    asked = [(split, count) for split in splits for count in range(1, most + 1)]
    rows = []
    for split, count in progress("induction", asked):
        fields = config.dataset.templates.complete_algorithm.model_copy(update={"examples": [count, count]})
        templates = config.dataset.templates.model_copy(update={"complete_algorithm": fields})
        dataset = config.dataset.model_copy(update={"templates": templates})
        seed = seed_of(config.seed, "induction", split, count)
        drawn = sample(dataset, seed, "complete_algorithm", split, 0, settings.programs)
        lengths = drawn.prompt_length.astype(np.int64)
        prompts, own = drawn.programs.prefixes(lengths), drawn.programs.suffixes(lengths).to_strings()
        greedy = model.complete(prompts, dataset.max_length)
        options = {"samples": settings.samples, "temperature": 1.0, "seed": seed}
        texts, ended = model.complete(prompts, dataset.max_length, **options)
        for row, prompt in enumerate(prompts.to_strings()):
            of_row = np.arange(row * settings.samples, (row + 1) * settings.samples)
            found = votes(prompt, texts.take(of_row), ended[of_row], dataset)
            first = votes(prompt, greedy[0].take(np.array([row])), greedy[1][[row]], dataset)
            (right,) = computes(prompt, [own[row]], dataset).tolist()
            classes, probability = posterior(prompt, dataset, split).by_behavior()
            most = max(found, key=lambda group: len(found[group]), default=-1)
            fraction = np.array([len(found.get(group, ())) for group in classes.tolist()]) / settings.samples
            ideal = np.random.default_rng([seed, row]).multinomial(settings.samples, probability)
            rows.append(
                {
                    "split": split,
                    "examples": count,
                    "program": prompt + own[row],
                    "prompt_length": len(prompt),
                    "functions": len(classes),
                    "samples": settings.samples,
                    "fits": sum(map(len, found.values())),
                    "votes": len(found.get(most, ())),
                    "voted": right in found and most == right,
                    "greedy": right in first,
                    "prior": prior(prompt, dataset) == right,
                    "ceiling": probability.max(),
                    # Samples of no function of the grammar, too, are where the posterior is not.
                    "total_variation": np.maximum(probability - fraction, 0).sum(),
                    "ideal_variation": np.maximum(probability - ideal / settings.samples, 0).sum(),
                }
            )
    return pl.DataFrame(rows)


def summary(results: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies over all numbers of examples, of functions that training has and has not."""
    found = induction_by(results.with_columns(all=pl.lit("")), "all").drop("all")
    policy = pl.when(policy="prior").then(pl.lit("prior")).otherwise(pl.lit("model"))
    return found.select(
        pl.col("split").replace({"test": "seen_functions", OOD: "unseen_functions"}).alias("question"),
        policy.alias("policy"),
        pl.col("policy").replace({"prior": "voted"}).alias("metric"),
        pl.exclude("split", "policy"),
    )


def findings(results: pl.DataFrame) -> Findings:
    """Return the accuracies by the number of examples."""
    accuracies = induction_by(results, "examples").pivot(
        "policy", index=["split", "examples"], values="accuracy"
    )
    variation = results.group_by("split", "examples").agg(pl.col("total_variation", "ideal_variation").mean())
    table = accuracies.join(variation, ["split", "examples"], maintain_order="left")
    name = pl.format("{}, {}", "split", "examples").alias("examples")
    return Findings(
        f"functions that are right on fresh inputs, by split and number of examples: best possible,\n"
        f"of most votes among {results['samples'][0]} samples, greedy, without reading the examples;\n"
        "and the total variation to the posterior, of the model and of samples of the posterior",
        table.select(name, pl.exclude("split", "examples")),
    )


EXPERIMENT = Experiment(
    measure=measure,
    columns={
        **{"split": one_of(("test", OOD)), "examples": POSITIVE, "program": PROGRAM},
        **dict.fromkeys(("prompt_length", "functions", "samples"), POSITIVE),
        **dict.fromkeys(("fits", "votes"), COUNT),
        **dict.fromkeys(("voted", "greedy", "prior"), FLAG),
        **{"ceiling": FRACTION, "total_variation": NONNEGATIVE, "ideal_variation": NONNEGATIVE},
    },
    rules={
        "fits: must be at most samples": pl.col("fits") <= pl.col("samples"),
        "votes: must be at most fits": pl.col("votes") <= pl.col("fits"),
    },
    summary=summary,
    findings=findings,
    figures=(
        Figure(
            "induction",
            "Induction against the exact posterior over functions. Accuracy on fresh inputs by the number of "
            "examples and by how many different functions these leave; total variation between posterior and "
            "model, and that of equally many samples of the posterior; and how often a function is right by "
            "its fraction of the votes. Points of fewer than 10 prompts are left out.",
        ),
    ),
)
