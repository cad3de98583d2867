"""pass@k: completions of test programs sampled several times, graded by execution."""

from typing import TYPE_CHECKING

from cadmus.experiments.completions import ASKED, ask, grade_model
from cadmus.experiments.experiment import Experiment, Figure, Subject

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from cadmus.programs import Programs


def measure(subject: Subject) -> "pl.DataFrame":
    """solved@k and verified@k of sampled completions.

    The probability that at least one of k samples is solved or verified, estimated without bias from all n.
    The baseline draws completions of random training programs. The greedy completion is graded as well.
    """
    import polars as pl

    from cadmus.evaluate.grading import MODEL
    from cadmus.evaluate.pass_at_k import BASELINE, grade_samples, training_completions
    from cadmus.tools import seed_of

    config = subject.config
    settings = config.evaluate.pass_at_k
    dataset, n = config.dataset, settings.samples
    tasks = ask(subject, settings.programs)
    model = subject.model()

    def sample(question: str, prompts: "Programs") -> "tuple[Programs, np.ndarray]":
        return model.complete(
            prompts,
            dataset.max_length,
            temperature=settings.temperature,
            seed=seed_of(config.seed, "pass_at_k", question),
        )

    greedy = grade_model(model, tasks, dataset)["solved"].alias("greedy_solved")
    baseline = training_completions(subject.dataset_directory(), tasks, config.seed)
    return pl.concat(
        [
            grade_samples(tasks, sample, MODEL, dataset, n).with_columns(greedy),
            grade_samples(tasks, baseline, BASELINE, dataset, n).with_columns(
                pl.lit(None, pl.Boolean).alias("greedy_solved")
            ),
        ]
    )


def summary(results: "pl.DataFrame") -> "pl.DataFrame":
    """Return pass@k of each question and policy, by every metric."""
    from cadmus.evaluate.pass_at_k import accuracy_at_k

    return accuracy_at_k(results)


EXPERIMENT = Experiment(
    measure=measure,
    columns={
        **ASKED,
        "samples": int,
        "solved": int,
        "verified": int,
        "fits": int,
        "distinct_solved": int,
        "mean_length": float,
        "greedy_solved": bool,
    },
    summary=summary,
    dataset=True,
    figures=(
        Figure(
            "pass_at_k",
            "Probability that at least one of k sampled completions is solved (solved@k) or verified "
            "(verified@k), with 95% bootstrap intervals, and that the first verified one of k samples is "
            "solved. The baseline draws completions of random training programs. The dotted line is the "
            "accuracy of the greedy completion.",
        ),
    ),
)
