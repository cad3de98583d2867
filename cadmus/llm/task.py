"""The comparison as a task of Inspect: ``inspect eval cadmus/llm/task.py -T config=quick --model ...``."""

from pathlib import Path
from typing import Any

import polars as pl
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from cadmus.config import load_config
from cadmus.llm.models import LanguageModel
from cadmus.llm.outcomes import outcome
from cadmus.llm.prompt import SYMBOLS, translate
from cadmus.llm.questions import questions

_LIKELIEST = 20
"""Tokens with a log-probability, as many as servers return."""


@task
def comparison(config: str = "quick", answer: str = "free", reads_limit: bool = False) -> Task:
    """Ask for the comparator of the programs of a config's section ``llm``.

    Args:
        config: a file, or the name of one in config/.
        answer, reads_limit: as in config/tables/llms.yaml.
    """
    fields: dict[str, Any] = {"answer": answer, "reads_limit": reads_limit}
    model = LanguageModel(name="any", model="any/any", **fields)
    return build(questions(load_config(Path(config)), model), model)


def build(asked: pl.DataFrame, model: LanguageModel) -> Task:
    """Return the task with the rows of :func:`cadmus.llm.questions.questions`."""
    samples = [
        Sample(
            id=number,
            input=row["prompt"],
            target=translate(row["program"][-1], row["alphabet"]),
            metadata={name: value for name, value in row.items() if name != "prompt"},
        )
        for number, row in enumerate(asked.iter_rows(named=True))
    ]
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
        text, found, _ = graded(state.output, state.metadata, choice)
        return Score(value=CORRECT if found == "correct" else INCORRECT, answer=text, explanation=found)

    return score


def graded(output: ModelOutput, asked: dict[str, Any], choice: bool) -> tuple[str, str, list[float | None]]:
    """Return the text and outcome of a reply, and the log-probabilities of ``<``, ``=`` and ``>``.

    The text of a choice is the likeliest comparator among the likeliest first tokens.
    """
    text, symbols = output.completion, SYMBOLS[asked["alphabet"]]
    found: dict[str, float] = {}
    logprobs = output.choices[0].logprobs if choice and output.choices else None
    for each in (logprobs.content[0].top_logprobs if logprobs and logprobs.content else None) or []:
        # A symbol may be a token with a space before it too.
        symbol = each.token.strip()
        found[symbol] = max(each.logprob, found.get(symbol, each.logprob))
    of_comparators = {name: found[symbols[name]] for name in "<=>" if symbols[name] in found}
    if of_comparators:
        text = symbols[max(of_comparators, key=lambda name: of_comparators[name])]
    stop_reason = "stop" if choice else output.stop_reason
    result = outcome(text, stop_reason, asked["program"], asked["alphabet"])
    return text, result, [of_comparators.get(name) for name in "<=>"]
