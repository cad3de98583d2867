"""Grades of the answers: read strictly, then checked by execution."""

import numpy as np
import polars as pl

from cadmus.evaluate.comparisons import HALF
from cadmus.llm import ModelOutputError
from cadmus.llm.comparison import Comparison
from cadmus.llm.costs import spent_usd
from cadmus.llm.models import LanguageModel
from cadmus.llm.outcomes import COLUMNS
from cadmus.llm.prompt import read_answer
from cadmus.llm.replies import Replies
from cadmus.llm.requests import Request
from cadmus.programs import Programs
from cadmus.tools import progress
from cadmus.vm.compiled import verdicts

_SCHEMA = {
    "completion": pl.String,
    "outcome": pl.String,
    "comparator": pl.String,
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "usd": pl.Float64,
}


def score(comparison: Comparison) -> pl.DataFrame:
    """Grade every request of a comparison.

    Returns:
        One row per request, in the order of the index: model, symbols, max_output_tokens, in_grid, x, y,
        program (true, in normal symbols), completion (the raw answer or null), outcome (see
        :mod:`cadmus.llm.outcomes`), input_tokens, output_tokens (null if the server did not count) and usd.
    """
    index = comparison.index
    models = {model.name: model for model in comparison.models}
    asked = index.select("model", "symbols", "key").iter_rows()
    rows = [
        _grade(comparison.requests[name][key], comparison.replies[name], models[name], symbols)
        for name, symbols, key in progress("score", asked, len(index), "request")
    ]
    graded = index.drop("key").hstack(pl.DataFrame(rows, schema=_SCHEMA, orient="row"))
    compared = graded["comparator"].is_not_null().to_numpy()
    answered = graded.filter(compared).select("program", "comparator").iter_rows()
    completed = [program[: 2 * HALF] + comparator for program, comparator in answered]
    true = np.zeros(len(graded), np.bool_)
    true[compared] = verdicts(Programs.from_strings(completed))
    outcome = pl.when(pl.Series(true)).then(pl.lit("correct")).otherwise("outcome")
    return graded.with_columns(outcome.alias("outcome")).select(*COLUMNS).cast(pl.Schema(COLUMNS))


def _grade(
    request: Request, replies: Replies, model: LanguageModel, symbols: str
) -> tuple[str | None, str, str | None, int | None, int | None, float]:
    """Return the columns of ``_SCHEMA`` for a request; any comparator counts as ``wrong`` until execution."""
    if request.key not in replies.results:
        outcome = "rejected" if replies.settles(request.key) else "unanswered"
        return None, outcome, None, None, None, 0.0
    usd = spent_usd(model, request, replies)
    answer = replies.answer(request)
    if answer is None:
        return None, "malformed", None, None, None, usd
    comparator = None
    outcome = answer.fault or "wrong"
    if answer.fault is None:
        try:
            comparator = read_answer(answer.text, symbols)
        except ModelOutputError:
            outcome = "unparsed"
    return answer.text, outcome, comparator, answer.input_tokens, answer.output_tokens, usd
