"""pass@k: completions of test programs sampled several times, graded by execution."""

from dataclasses import replace

import numpy as np
import polars as pl

from cadmus.columns import COUNT, FLAG, FRACTION, POSITIVE
from cadmus.evaluate.statistics.results import CEILING, accuracy_at_k, at, measured
from cadmus.experiments.completions import ASKED, ASKED_RULES, ask, best_possible, grade_model
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary
from cadmus.programs import Programs
from cadmus.tools import seed_of


def measure(subject: Subject) -> pl.DataFrame:
    """solved@k and verified@k of sampled completions.

    The probability that at least one of k samples is solved or verified, estimated without bias from all n.
    The baseline draws completions of random training programs. The greedy completion is graded as well.
    """
    from cadmus.evaluate.baselines.policies import BASELINE_OF_SAMPLES, training_completions
    from cadmus.evaluate.grading import grade_samples
    from cadmus.evaluate.statistics.results import MODEL

    config, model = subject.config, subject.model()
    dataset, settings = config.dataset, config.evaluate.pass_at_k
    tasks = ask(subject, settings.programs)

    def sample(question: str, prompts: Programs) -> tuple[Programs, np.ndarray]:
        seed = seed_of(config.seed, "pass_at_k", question)
        return model.complete(prompts, dataset.max_length, temperature=settings.temperature, seed=seed)

    greedy = grade_model(model, tasks, dataset)["solved"].alias("greedy_solved")
    baseline = training_completions(subject.dataset_directory(), tasks, config.seed)
    sampled, random = (
        grade_samples(tasks, policy, name, dataset, settings.samples)
        for name, policy in ((MODEL, sample), (BASELINE_OF_SAMPLES, baseline))
    )
    ceiling = best_possible(tasks, dataset, config.evaluate.split)
    return pl.concat([sampled.with_columns(greedy, ceiling), random], how="diagonal")


def summarize(results: pl.DataFrame) -> Summary:
    """Return solved@k of the model and the baseline for the largest k."""
    samples = results["samples"][0]
    solved = accuracy_at_k(results).filter(metric="solved", k=samples)
    table = solved.pivot("policy", index="question", values="accuracy")
    return Summary(f"solved@{samples} of the model and of completions of random training programs", table)


EXPERIMENT = Experiment(
    measure=measure,
    seconds=22,
    columns={
        **ASKED,
        "samples": replace(POSITIVE, high=1_000_000),
        "solved": COUNT,
        "verified": COUNT,
        "fits": COUNT.or_null(),
        "greedy_solved": FLAG.or_null(),
        CEILING: FRACTION.or_null(),
    },
    rules={
        **ASKED_RULES,
        "samples: must be the same in all rows": pl.col("samples") == pl.col("samples").first(),
        "verified: must be at most samples": pl.col("verified") <= pl.col("samples"),
        "solved: must be at most verified": pl.col("solved") <= pl.col("verified"),
        "fits: must be at most samples": pl.col("fits") <= pl.col("samples"),
        "greedy_solved: must be known of the model alone": (
            pl.col("greedy_solved").is_not_null() == (pl.col("policy") == "model")
        ),
    },
    metrics=lambda results: measured(accuracy_at_k(results).with_columns(metric=at("k"))),
    summary=summarize,
    dataset=True,
    figures=(
        Figure(
            "pass_at_k",
            "Probability that at least one of k sampled completions is solved (solved@k) or verified "
            "(verified@k), with 95% bootstrap intervals. The baseline draws completions of random training "
            "programs. For induction, also the best possible accuracy.",
        ),
    ),
)
