"""Ask large language models with Inspect, and read the answers in its logs.

Inspect stores every reply as it comes, so a run that is interrupted or started again asks only for what is
missing. A log is written for each model.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from cadmus.config import Config, digest
from cadmus.errors import InputError
from cadmus.llm.models import LanguageModel
from cadmus.llm.outcomes import COLUMNS, at_limits
from cadmus.llm.questions import most_usd, questions

_DIGEST = "cadmus_questions"


def ask(config: Config, models: Sequence[LanguageModel], directory: Path, say: Callable[[str], None]) -> None:
    """Ask each model that has a key all questions without a stored reply.

    Raises:
        InputError: the answers could cost more than ``llm.max_cost_usd``, or a model does not answer.
    """
    asked = {model.name: questions(config, model) for model in models if model.usable}
    for model in models:
        if not model.usable:
            say(f"{model.name}: not asked, as {model.key} is not set")
    cost = sum(most_usd(model, asked[model.name]) for model in models if model.usable)
    if cost > config.llm.max_cost_usd:
        raise InputError(
            f"llm.max_cost_usd: the answers may cost {cost:.2f} USD, above {config.llm.max_cost_usd:g}; "
            "raise it, or ask less"
        )
    # Inspect reads it when it first stores a reply.
    os.environ["INSPECT_CACHE_DIR"] = str((directory / "replies").absolute())
    from inspect_ai import eval as evaluate

    from cadmus.llm.task import build

    for model in models:
        if model.usable:
            rows = asked[model.name]
            say(f"{model.name}: {len(rows):,} questions")
            (log,) = evaluate(
                build(rows, model),
                model=model.inspect(),
                log_dir=str(directory / "logs" / model.name),
                metadata={_DIGEST: _digest(rows)},
                display="plain",
                log_buffer=100,
            )
            if log.status != "success":
                reason = log.error.message if log.error else log.status
                raise InputError(f"{model.name}: {reason}; what was answered is kept, ask again for the rest")


def read(config: Config, models: Sequence[LanguageModel], directory: Path) -> pl.DataFrame:
    """Return :data:`cadmus.llm.outcomes.COLUMNS` of the questions to each model, from its last whole log."""
    parts = []
    for model in models:
        rows = questions(config, model)
        answers = _answers(directory / "logs" / model.name, rows, model)
        given = [answers.get(number, {"outcome": "unanswered", "usd": 0.0}) for number in range(len(rows))]
        asked = rows.rename({"limit": "max_output_tokens"}).with_columns(model=pl.lit(model.name))
        schema = {name: kind for name, kind in pl.Schema(COLUMNS).items() if name not in asked.columns}
        table = pl.concat([asked, pl.DataFrame(given, schema)], how="horizontal").select(*COLUMNS)
        whole = model.reads_limit or model.answer == "choice"
        parts.append(table if whole else at_limits(table, config.llm.max_output_tokens))
    return pl.concat([part.cast(pl.Schema(COLUMNS)) for part in parts])


def _answers(logs: Path, asked: pl.DataFrame, model: LanguageModel) -> dict[int, dict[str, object]]:
    """Return the graded replies in the last log of these questions, by their number."""
    if not logs.is_dir():
        return {}
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples

    from cadmus.llm.task import graded

    for info in list_eval_logs(str(logs)):
        header = read_eval_log(info, header_only=True)
        if header.status != "success" or (header.eval.metadata or {}).get(_DIGEST) != _digest(asked):
            continue
        found: dict[int, dict[str, object]] = {}
        for sample in read_eval_log_samples(info):
            text, result, logprobs = graded(sample.output, sample.metadata, model.answer == "choice")
            counts: tuple[int | None, int | None] = None, None
            if usage := sample.output.usage:
                cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
                counts = usage.input_tokens + cached, usage.output_tokens
            found[int(sample.id)] = {
                **{"completion": text, "outcome": result},
                **dict(zip(("less", "equal", "greater"), logprobs, strict=True)),
                **{"input_tokens": counts[0], "output_tokens": counts[1]},
                "usd": model.usd(counts[0] or 0, counts[1] or 0),
            }
        return found
    return {}


def _digest(asked: pl.DataFrame) -> str:
    return digest(asked.select("prompt", "limit").rows())
