"""The comparison as a task of Inspect, which asks large language models and keeps their replies.

Inspect stores every reply as it comes, so a run that is interrupted or started again asks only for what is
missing. A log is written for each model.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalSample, list_eval_logs, read_eval_log, read_eval_log_samples
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from cadmus.config import Config, digest
from cadmus.errors import InputError, naming
from cadmus.evaluate.prompts.language_models import SYMBOLS, read_answer, translate
from cadmus_llm.models import LanguageModel
from cadmus_llm.outcomes import TABLE, at_limits
from cadmus_llm.questions import most_usd, questions
from cadmus_llm.settings import Settings

_LIKELIEST = 20
"""Tokens with a log-probability, as many as servers return."""
_DIGEST = "cadmus_questions"
_STOPPED = {"max_tokens": "truncated", "model_length": "truncated", "content_filter": "refused"}
_COMPARATORS = {"<": "less", "=": "equal", ">": "greater"}


def ask(
    settings: Settings,
    config: Config,
    models: dict[str, LanguageModel],
    directory: Path,
    say: Callable[[str], None],
) -> None:
    """Ask each model that has a key all questions without a stored reply, within ``max_cost_usd``."""
    by_model = {name: questions(settings, config, model) for name, model in models.items() if model.usable}
    for name, model in models.items():
        if name not in by_model:
            say(f"{name}: not asked, as {model.key} is not set")
    cost = sum(most_usd(models[name], rows) for name, rows in by_model.items())
    if cost > settings.max_cost_usd:
        problem = f"the answers may cost {cost:.2f} USD, above {settings.max_cost_usd:g}"
        raise InputError(f"max_cost_usd: {problem}; raise it, or ask less")
    # Inspect reads it when it first stores a reply.
    os.environ["INSPECT_CACHE_DIR"] = str((directory / "replies").absolute())
    for name, rows in by_model.items():
        say(f"{name}: {len(rows):,} questions")
        with naming(name):
            (log,) = evaluate(
                _task(rows, models[name]),
                model=models[name].inspect(),
                log_dir=str(directory / "logs" / name),
                metadata={_DIGEST: _digest(rows)},
                display="plain",
                log_buffer=100,
            )
            if log.status != "success":
                reason = log.error.message if log.error else log.status
                raise InputError(f"{reason}; what was answered is kept, ask again for the rest")


def read(
    settings: Settings, config: Config, models: dict[str, LanguageModel], directory: Path
) -> pl.DataFrame:
    """Return :data:`cadmus_llm.outcomes.TABLE` of the questions to each model, from its last whole log."""
    parts = []
    for name, model in models.items():
        rows = questions(settings, config, model)
        answered = _answers(directory / "logs" / name, rows, model)
        answers = [answered.get(number, {"outcome": "unanswered", "usd": 0.0}) for number in range(len(rows))]
        asked = rows.rename({"limit": "max_output_tokens"}).with_columns(model=pl.lit(name))
        schema = {name: kind for name, kind in TABLE.schema.items() if name not in asked.columns}
        table = pl.concat([asked, pl.DataFrame(answers, schema)], how="horizontal").select(*TABLE.columns)
        whole = model.reads_limit or model.answer == "choice"
        parts.append(table if whole else at_limits(table, settings.max_output_tokens))
    return pl.concat([part.cast(TABLE.schema) for part in parts])


def _answers(logs: Path, asked: pl.DataFrame, model: LanguageModel) -> dict[int, dict[str, Any]]:
    """Return the graded replies in the last log of these questions, by their number."""
    for info in list_eval_logs(str(logs)) if logs.is_dir() else ():
        header = read_eval_log(info, header_only=True)
        if header.status == "success" and (header.eval.metadata or {}).get(_DIGEST) == _digest(asked):
            return {int(sample.id): _answer(sample, model) for sample in read_eval_log_samples(info)}
    return {}


def _answer(sample: EvalSample, model: LanguageModel) -> dict[str, Any]:
    answer = _graded(sample.output, sample.metadata, model.answer == "choice")
    if usage := sample.output.usage:
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        answer |= {"input_tokens": usage.input_tokens + cached, "output_tokens": usage.output_tokens}
    return {**answer, "usd": model.usd(answer.get("input_tokens", 0), answer.get("output_tokens", 0))}


def _digest(asked: pl.DataFrame) -> str:
    return digest(asked.select("prompt", "limit").rows())


def _task(asked: pl.DataFrame, model: LanguageModel) -> Task:
    """Return the task with the rows of :func:`cadmus_llm.questions.questions`."""
    samples = []
    for number, row in enumerate(asked.iter_rows(named=True)):
        right = translate(row["program"][-1], row["alphabet"])
        samples.append(Sample(row.pop("prompt"), target=right, id=number, metadata=row))
    choice = model.answer == "choice"
    return Task(MemoryDataset(samples), solver=_ask(choice), scorer=_solved(choice))


@solver
def _ask(choice: bool) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        options: dict[str, Any] = {"logprobs": True, "top_logprobs": _LIKELIEST} if choice else {}
        return await generate(state, max_tokens=state.metadata["limit"], **options)

    return solve


@scorer(metrics=[accuracy(), stderr()])
def _solved(choice: bool) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        graded = _graded(state.output, state.metadata, choice)
        value = CORRECT if graded["outcome"] == "correct" else INCORRECT
        return Score(value=value, answer=graded["completion"], explanation=graded["outcome"])

    return score


def _graded(output: ModelOutput, asked: dict[str, Any], choice: bool) -> dict[str, Any]:
    """Return the completion and outcome of a reply and, of a choice, the log-probability of each comparator.

    A choice is the likeliest comparator among the likeliest first tokens.
    """
    text, symbols = output.completion, SYMBOLS[asked["alphabet"]]
    likeliest: dict[str, float] = {}
    logprobs = output.choices[0].logprobs if choice and output.choices else None
    for token in (logprobs.content[0].top_logprobs if logprobs and logprobs.content else None) or []:
        # A symbol may be a token with a space before it too.
        symbol = token.token.strip()
        likeliest[symbol] = max(token.logprob, likeliest.get(symbol, token.logprob))
    of_comparators = {name: likeliest[symbols[name]] for name in _COMPARATORS if symbols[name] in likeliest}
    if of_comparators:
        text = symbols[max(of_comparators, key=lambda name: of_comparators[name])]
    if comparator := read_answer(text, asked["alphabet"]):
        result = "correct" if comparator == asked["program"][-1] else "wrong"
    else:
        result = "unparsed" if choice else _STOPPED.get(output.stop_reason, "unparsed")
    likely = {_COMPARATORS[name]: value for name, value in of_comparators.items()}
    return {"completion": text, "outcome": result, **likely}
