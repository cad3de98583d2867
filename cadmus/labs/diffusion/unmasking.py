"""The order in which masked diffusion writes a completion, against the data flow of the program."""

import numpy as np
import polars as pl

from cadmus.columns import COUNT, FLAG, NAME
from cadmus.experiments.completions import ask
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary
from cadmus.labs.diffusion.settings import Unmasking
from cadmus.tools import progress


def measure(subject: Subject) -> pl.DataFrame:
    """Order of masked diffusion, against the data flow.

    How often an instruction of a completion is chosen after another one whose value it takes from the stack,
    and how often after the one to its left. Both are half of the time in random order, and always from left
    to right.
    """
    from cadmus.evaluate.criteria import Completed
    from cadmus.labs.diffusion.dataflow import dependencies
    from cadmus.model.decoding import greedy

    config, model = subject.config, subject.model()
    rows = []
    for task in progress("unmasking", ask(subject, Unmasking.below(config.evaluate).programs)):
        limits = np.full(len(task.programs), config.dataset.max_length)
        filled = model.decoder.filled(model, task.prompts, limits, greedy, config.seed)
        written, ended = filled.programs()
        done = Completed(task.programs, task.prompt_length, written, ended, config.dataset)
        solved = task.question.solves(done)
        for text, start, steps, right in zip(
            done.full.to_strings(), task.prompt_length.tolist(), filled.steps_RC, solved.tolist(), strict=True
        ):
            flow = [(a - start, b - start) for a, b in dependencies(text) if a >= start]
            left = [(place, place + 1) for place in range(len(text) - start - 1)]
            counts = [
                count
                for pairs in (flow, left)
                for count in (len(pairs), sum(bool(steps[a] < steps[b]) for a, b in pairs))
            ]
            rows.append((task.name, right, *counts))
    names = ["question", "solved", "uses", "uses_after", "neighbors", "left_first"]
    counted = pl.DataFrame(rows, names, orient="row").group_by("question", "solved", maintain_order=True)
    return counted.agg(pl.len().alias("programs"), pl.col(names[2:]).sum())


def summarize(results: pl.DataFrame) -> Summary:
    """Return the two fractions by question, of solved and of other completions."""
    flow, left = (
        (pl.col(part) / pl.col(whole)).fill_nan(None)
        for part, whole in (("uses_after", "uses"), ("left_first", "neighbors"))
    )
    named = pl.when("solved").then(pl.lit("solved")).otherwise(pl.lit("unsolved"))
    table = results.select("question", named.alias("of"), flow.alias("data flow"), left.alias("left"))
    wide = table.pivot("of", index="question", values=["data flow", "left"])
    return Summary(
        "instructions that are chosen after one whose value they use, and after the one to their left",
        wide.rename({name: name.replace("_", ", ") for name in wide.columns}),
    )


EXPERIMENT = Experiment(
    measure=measure,
    seconds=28,
    needs="the order of masked diffusion",
    attention="full",
    columns={
        "question": NAME,
        "solved": FLAG,
        "programs": COUNT,
        "uses": COUNT,
        "uses_after": COUNT,
        "neighbors": COUNT,
        "left_first": COUNT,
    },
    rules={
        "uses_after: must be at most uses": pl.col("uses_after") <= pl.col("uses"),
        "left_first: must be at most neighbors": pl.col("left_first") <= pl.col("neighbors"),
    },
    summary=summarize,
    dataset=True,
    figures=(
        Figure(
            "unmasking",
            module="cadmus.labs.diffusion.unmasking_figure",
            caption="The order in which masked diffusion writes solved completions: how often an "
            "instruction is chosen after another one whose value it takes from the stack, and how often "
            "after its left neighbor.",
        ),
    ),
)
