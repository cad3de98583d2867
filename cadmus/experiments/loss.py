"""Loss on the completions of test programs."""

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.evaluate.results import loss_by
from cadmus.experiments.experiment import Experiment, Figure, Subject
from cadmus.tools import progress

_PROGRAMS_AT_ONCE = 2_048


def measure(subject: Subject) -> pl.DataFrame:
    """Loss on the completions of test programs.

    The mean over the tokens of a completion, its end included, in nats. The training reports the same loss
    as completion_loss. For induction, the lowest loss that a learner can have on average is computed.
    """
    from cadmus.evaluate.posterior import surprise

    samples = subject.test_programs()
    templates = np.asarray(samples.template)
    most = subject.config.evaluate.loss.programs
    first = [np.flatnonzero(templates == name)[:most] for name in dict.fromkeys(templates.tolist())]
    samples = samples.take(np.concatenate(first))
    programs, prompts = samples.programs, samples.prompt_length.astype(np.int64)
    completions = programs.suffixes(prompts).to_strings()
    losses = np.empty(len(programs))
    model = subject.model()
    for start in progress("loss", range(0, len(programs), _PROGRAMS_AT_ONCE)):
        rows = np.arange(start, min(start + _PROGRAMS_AT_ONCE, len(programs)))
        for row, found in zip(rows, model.log_probabilities(programs.take(rows)), strict=True):
            following = [isa.TOKEN_ID[symbol] for symbol in completions[row] + isa.END]
            # The last instruction of the prompt predicts the first one of the completion.
            places = prompts[row] - 1 + np.arange(len(following))
            losses[row] = -found[places, following].mean(dtype=np.float64)
    tokens = programs.lengths - prompts + 1
    induction = np.flatnonzero(np.asarray(samples.template) == "complete_algorithm")
    floor = np.full(len(programs), np.nan)
    of = programs.take(induction), prompts[induction], subject.config.dataset, subject.config.evaluate.split
    floor[induction] = surprise(*of) / tokens[induction]
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


EXPERIMENT = Experiment(
    measure=measure,
    columns={
        "template": str,
        "program": str,
        "prompt_length": int,
        "tokens": int,
        "loss": float,
        "floor": float,
    },
    summary=lambda results: loss_by(results, "template"),
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
