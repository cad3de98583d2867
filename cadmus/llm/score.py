"""Answers of large language models, read strictly and graded by execution."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from cadmus.common.progress import progress
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
        outcome (see :mod:`cadmus.llm.outcomes`), input_tokens, output_tokens (as the server counted, null
        where it did not) and usd.
    """
    by_name = {model.name: model for model in models}
    rows = []
    asked = index.select("model", "symbols", "key").iter_rows()
    for name, symbols, key in progress("score", asked, len(index), "request"):
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
