"""Induction against the exact posterior: how far a model is from the best possible learner.

In-context induction is implicit Bayesian inference (Xie et al. 2022), and here the posterior over functions
is known. For each prompt the model's distribution over what a definition computes, estimated from samples,
is compared with it, by the number of examples and by how many functions these leave.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from cadmus.columns import COUNT, FLAG, FRACTION, NONNEGATIVE, POSITIVE, PROGRAM, one_of
from cadmus.config import OOD, Dataset
from cadmus.config.evaluation import Induction
from cadmus.evaluate.statistics.results import induction_by, measured
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary
from cadmus.tools import progress, seed_of


def measure(subject: Subject) -> pl.DataFrame:
    """Induction from 1 to 8 examples, against the exact posterior.

    Definitions are sampled and grouped by what they compute. The total variation to the posterior is compared
    with that of as many samples of the posterior itself. If a rule keeps functions out of training, prompts
    of these are asked as well.
    """
    config, model = subject.config, subject.model()
    settings = config.evaluate.induction
    rules = config.dataset.rules_for("complete_algorithm").values()
    splits = ("test", OOD) if any(rule.functions is not None for rule in rules) else ("test",)
    # An example and its share of the definition have about seven instructions, at least.
    most_examples = max(1, min(settings.examples, config.dataset.max_length // 7))
    conditions = [(split, count) for split in splits for count in range(1, most_examples + 1)]
    rows: list[dict[str, Any]] = []
    for split, count in progress("induction", conditions):
        dataset = _with_examples(config.dataset, count)
        seed = seed_of(config.seed, "induction", split, count)
        measured = _measured(model, dataset, split, settings, seed)
        rows += [{"split": split, "examples": count, **row} for row in measured]
    return pl.DataFrame(rows)


def _with_examples(dataset: Dataset, count: int) -> Dataset:
    """Return the config of a dataset whose prompts of induction have ``count`` examples."""
    fields = dataset.templates.complete_algorithm.model_copy(update={"examples": [count, count]})
    templates = dataset.templates.model_copy(update={"complete_algorithm": fields})
    return dataset.model_copy(update={"templates": templates})


def _measured(
    model: Any, dataset: Dataset, split: str, settings: Induction, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the results of new prompts; groups of definitions are numbered by what they compute."""
    from cadmus.dataset.sampler import sample
    from cadmus.evaluate.posterior import posterior, prior
    from cadmus.templates.induction import computes, votes

    sampled = sample(dataset, seed, "complete_algorithm", split, 0, settings.programs)
    lengths, n = sampled.prompt_length.astype(np.int64), settings.samples
    prompts, own = sampled.programs.prefixes(lengths), sampled.programs.suffixes(lengths).to_strings()
    greedy_texts, greedy_ended = model.complete(prompts, dataset.max_length)
    texts, ended = model.complete(prompts, dataset.max_length, samples=n, temperature=1.0, seed=seed)
    for row, prompt in enumerate(prompts.to_strings()):
        of_prompt = np.arange(row * n, (row + 1) * n)
        groups = votes(prompt, texts.take(of_prompt), ended[of_prompt], dataset)
        greedy = votes(prompt, greedy_texts.take(np.array([row])), greedy_ended[[row]], dataset)
        (right,) = computes(prompt, [own[row]], dataset).tolist()
        functions, probability = posterior(prompt, dataset, split).by_behavior()
        voted = max(groups, key=lambda group: len(groups[group]), default=-1)
        fraction = np.array([len(groups.get(function, ())) for function in functions.tolist()]) / n
        ideal = np.random.default_rng([seed, row]).multinomial(n, probability) / n
        yield {
            "program": prompt + own[row],
            "prompt_length": len(prompt),
            "functions": len(functions),
            "samples": n,
            "fits": sum(map(len, groups.values())),
            "votes": len(groups.get(voted, ())),
            "voted": right in groups and voted == right,
            "greedy": right in greedy,
            "prior": prior(prompt, dataset) == right,
            "ceiling": probability.max(),
            # Samples of no function of the grammar, too, are where the posterior is not.
            "total_variation": np.maximum(probability - fraction, 0).sum(),
            "ideal_variation": np.maximum(probability - ideal, 0).sum(),
        }


def metrics(results: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies over all numbers of examples, of functions that training has and has not."""
    accuracies = induction_by(results.with_columns(all=pl.lit("")), "all").drop("all")
    policy = pl.when(policy="prior").then(pl.lit("prior")).otherwise(pl.lit("model"))
    renamed = accuracies.select(
        pl.col("split").replace({"test": "seen_functions", OOD: "unseen_functions"}).alias("question"),
        policy.alias("policy"),
        pl.col("policy").replace({"prior": "voted"}).alias("metric"),
        pl.exclude("split", "policy"),
    )
    return measured(renamed)


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracies by the number of examples."""
    accuracies = induction_by(results, "examples").pivot(
        "policy", index=["split", "examples"], values="accuracy"
    )
    variation = results.group_by("split", "examples").agg(pl.col("total_variation", "ideal_variation").mean())
    table = accuracies.join(variation, ["split", "examples"], maintain_order="left")
    name = pl.format("{}, {}", "split", "examples").alias("examples")
    return Summary(
        f"functions that are right on fresh inputs, by split and number of examples: best possible,\n"
        f"of most votes among {results['samples'][0]} samples, greedy, without reading the examples;\n"
        "and the total variation to the posterior, of the model and of samples of the posterior",
        table.select(name, pl.exclude("split", "examples")),
    )


EXPERIMENT = Experiment(
    measure=measure,
    seconds=41,
    columns={
        "split": one_of(("test", OOD)),
        "examples": POSITIVE,
        "program": PROGRAM,
        "prompt_length": POSITIVE,
        "functions": POSITIVE,
        "samples": POSITIVE,
        "fits": COUNT,
        "votes": COUNT,
        "voted": FLAG,
        "greedy": FLAG,
        "prior": FLAG,
        "ceiling": FRACTION,
        "total_variation": NONNEGATIVE,
        "ideal_variation": NONNEGATIVE,
    },
    metrics=metrics,
    summary=summarize,
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
