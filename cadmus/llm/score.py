"""Answers of large language models, read strictly and graded by execution.

Each request has one outcome:

* ``correct``: the answer is one comparator, in the symbols asked for, and the machine finds the program true;
* ``wrong``: it is another comparator;
* ``unparsed``: it is anything else;
* ``truncated``: the limit of tokens cut it off;
* ``refused``: the model, or a filter, would not answer;
* ``rejected``: the server did not accept the request, so that the model has not seen it;
* ``unanswered``: there is no reply.

All but the last two were given to the model and count; only ``correct`` ones are right.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from cadmus.errors import ModelOutputError
from cadmus.evaluate.comparisons import HALF
from cadmus.llm.answers import read_reply
from cadmus.llm.costs import paid
from cadmus.llm.models import LanguageModel
from cadmus.llm.prompt import read_answer
from cadmus.llm.replies import Replies
from cadmus.llm.requests import Request
from cadmus.programs import Programs
from cadmus.vm.compiled import verdicts

GIVEN = ("correct", "wrong", "unparsed", "truncated", "refused")
"""The outcomes of programs that the model was given."""
OUTCOMES = (*GIVEN, "rejected", "unanswered")
"""All outcomes."""


def score(
    index: pl.DataFrame,
    requests: Mapping[str, Mapping[str, Request]],
    replies: Mapping[str, Replies],
    models: Sequence[LanguageModel],
) -> pl.DataFrame:
    """Grade every request.

    Args:
        index: what each request is about, as :func:`cadmus.llm.requests.read_index` gives it.
        requests: of each model, by key.
        replies: of each model.
        models: that were asked.

    Returns:
        One row a request, in the order of the index: model, symbols, max_output_tokens, in_grid, x, y,
        program (true, in normal symbols), completion (the answer as it came, null where there is none),
        outcome, input_tokens, output_tokens (as the server counted, null where it did not) and usd.
    """
    by_name = {model.name: model for model in models}
    rows = []
    for name, symbols, key in index.select("model", "symbols", "key").iter_rows():
        rows.append(_graded(requests[name][key], replies[name], by_name[name], symbols))
    schema = {
        "completion": pl.String,
        "outcome": pl.String,
        "comparator": pl.String,
        "input_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "usd": pl.Float64,
    }
    graded = pl.concat([index.drop("key"), pl.DataFrame(rows, schema=schema, orient="row")], how="horizontal")
    compared = graded["comparator"].is_not_null().to_numpy()
    answered = graded.filter(compared)
    whole = [
        program[: 2 * HALF] + comparator
        for program, comparator in answered.select("program", "comparator").iter_rows()
    ]
    true = np.zeros(len(graded), np.bool_)
    true[compared] = verdicts(Programs.from_strings(whole))
    outcome = pl.when(pl.Series(true)).then(pl.lit("correct")).otherwise("outcome")
    return graded.with_columns(outcome.alias("outcome")).drop("comparator")


def summary(answers: pl.DataFrame) -> pl.DataFrame:
    """Counts of each condition.

    Returns:
        model, symbols, max_output_tokens, programs (that the model was given), each of ``OUTCOMES``,
        output_tokens (in the mean) and usd; in the order of the answers.
    """
    outcome = pl.col("outcome")
    return answers.group_by("model", "symbols", "max_output_tokens", maintain_order=True).agg(
        outcome.is_in(GIVEN).sum().cast(pl.Int64).alias("programs"),
        *((outcome == name).sum().cast(pl.Int64).alias(name) for name in OUTCOMES),
        pl.col("output_tokens").mean(),
        pl.col("usd").sum(),
    )


def _graded(
    request: Request, replies: Replies, model: LanguageModel, symbols: str
) -> tuple[str | None, str, str | None, int | None, int | None, float]:
    """Completion, outcome (``wrong`` for any comparator), comparator, input and output tokens, and USD."""
    if request.key not in replies.bodies:
        outcome = "rejected" if replies.settles(request.key) else "unanswered"
        return None, outcome, None, None, None, 0.0
    usd = paid(model, request, replies)
    answer = read_reply(request.url, replies.bodies[request.key])
    comparator = None
    outcome = answer.fault or "wrong"
    if answer.fault is None:
        try:
            comparator = read_answer(answer.text, symbols)
        except ModelOutputError:
            outcome = "unparsed"
    return answer.text, outcome, comparator, answer.input_tokens, answer.output_tokens, usd
