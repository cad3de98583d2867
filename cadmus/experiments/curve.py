"""Accuracy on each sub-problem against training compute."""

import polars as pl

from cadmus.columns import COUNT, FLAG, NAME, NONNEGATIVE
from cadmus.errors import InputError
from cadmus.evaluate.statistics.results import accuracy_by
from cadmus.experiments.completions import ask, grade_model
from cadmus.experiments.experiment import ACCURACY, Experiment, Figure, Subject, Summary
from cadmus.tools import progress


def measure(subject: Subject) -> pl.DataFrame:
    """Accuracy of each snapshot of a training, by training compute.

    ``reinforced`` is true for snapshots that have trained by reinforcement.
    """
    from cadmus.model.export import Snapshot, read_metadata, read_metadata_as

    supervised_steps = subject.config.train.reinforcement_steps.start
    tasks = ask(subject, subject.config.evaluate.curve.programs)
    sizes = read_metadata(subject.directory).model
    rows = []
    for path in progress("snapshots", subject.snapshots):
        metadata = read_metadata_as(Snapshot, path, "give the snapshots of a training")
        if metadata.model != sizes:
            raise InputError(f"{path}: has other sizes than {subject.directory}; give those of one training")
        completions = grade_model(subject.model(path), tasks, subject.config.dataset)
        compute = {"step": metadata.steps, "tokens": metadata.tokens, "flops": metadata.flops}
        reinforced = pl.lit(metadata.steps > supervised_steps)
        rows.append(accuracy_by(completions, "question").with_columns(**compute, reinforced=reinforced))
    # Large numbers of tokens have another type.
    return pl.concat(rows, how="vertical_relaxed")


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracy of each snapshot on each question."""
    table = results.filter(metric="solved").pivot("step", index="question", values="accuracy")
    return Summary(
        "questions solved by the snapshot after each step",
        table.rename({name: f"step_{name}" for name in table.columns[1:]}),
    )


EXPERIMENT = Experiment(
    measure=measure,
    seconds=17,
    needs="the snapshots of a training",
    columns={
        "step": COUNT,
        "tokens": COUNT,
        "flops": NONNEGATIVE,
        "question": NAME,
        "policy": NAME,
        "metric": NAME,
        "programs": COUNT,
        "correct": COUNT,
        **ACCURACY,
        "reinforced": FLAG,
    },
    summary=summarize,
    dataset=True,
    snapshots=True,
    figures=(
        Figure(
            "accuracy_by_compute",
            "Error on each sub-problem (1 - accuracy, log scale) against training compute, with the errors "
            "of the best baseline, of the best possible answer (induction) and of the paper, whose 100% is "
            "drawn as an error of 0.5%. Snapshots with hollow markers have trained by reinforcement. Dashed "
            "lines are power laws fitted to the others, with the exponent of the compute and its 95% "
            "interval; where the points bend, there is none.",
            sources=("completions",),
        ),
    ),
)
