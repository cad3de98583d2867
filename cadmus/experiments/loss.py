"""Loss on the completions of test programs."""

import numpy as np
import polars as pl

from cadmus.columns import NAME, NONNEGATIVE, POSITIVE, PROGRAM
from cadmus.evaluate.statistics.results import loss_by
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary


def measure(subject: Subject) -> pl.DataFrame:
    """Loss on the completions of test programs.

    The mean over the tokens of a completion, its end included, in nats. The training reports the same loss
    as completion_loss. For induction, the lowest loss that a learner can have on average is computed.
    """
    from cadmus.evaluate.posterior import surprise

    samples = subject.test_programs()
    templates, most = np.asarray(samples.template), subject.config.evaluate.loss.programs
    first = [np.flatnonzero(templates == name)[:most] for name in dict.fromkeys(templates.tolist())]
    samples = samples.take(np.concatenate(first))
    programs, prompts = samples.programs, samples.prompt_length.astype(np.int64)
    losses = subject.model().completion_losses(programs, prompts, bar=True)
    tokens = programs.lengths - prompts + 1
    induction = np.flatnonzero(np.asarray(samples.template) == "complete_algorithm")
    floor = np.full(len(programs), np.nan)
    dataset, split = subject.config.dataset, subject.config.evaluate.split
    lowest = surprise(programs.take(induction), prompts[induction], dataset, split)
    floor[induction] = lowest / tokens[induction]
    return pl.DataFrame(
        {
            "template": samples.template,
            "program": programs.to_strings(),
            "prompt_length": prompts,
            "tokens": tokens,
            "loss": losses,
            "floor": pl.Series(floor).fill_nan(None),
        },
        schema_overrides={"template": pl.String},
    )


def metrics(results: pl.DataFrame) -> pl.DataFrame:
    """Return the loss over all tokens."""
    by_template = loss_by(results, "template")
    loss, tokens = (by_template[name].to_numpy() for name in ("loss", "tokens"))
    row = {"template": "", "metric": "held_out_loss", "value": float(np.average(loss, weights=tokens))}
    return pl.DataFrame({**row, "n": by_template["programs"].sum(), "baseline": None})


def summarize(results: pl.DataFrame) -> Summary:
    """Return the loss on each template and on all."""
    from cadmus.figures.loss_by_template import table

    return Summary("loss on completions in nats per token, with 95% intervals", table(results))


EXPERIMENT = Experiment(
    measure=measure,
    seconds=20,
    needs="next-token probabilities of whole programs",
    columns={
        "template": NAME,
        "program": PROGRAM,
        "prompt_length": POSITIVE,
        "tokens": POSITIVE,
        "loss": NONNEGATIVE,
        "floor": NONNEGATIVE.or_null(),
    },
    metrics=metrics,
    summary=summarize,
    dataset=True,
    figures=(
        Figure(
            "loss_by_template",
            "Loss on the completions of test programs in nats per token, with 95% bootstrap intervals. The "
            "best possible loss is the entropy of the functions that the examples allow.",
            "table",
        ),
    ),
)
