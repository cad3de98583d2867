"""Documents and grades of the tasks, see ``_cadmus.yaml``."""

import json
from itertools import islice
from typing import Any

import datasets

from cadmus import Task, tasks, verify
from cadmus.evaluate.prompts.language_models import answer_text, completion_in, question_text
from cadmus.evaluate.questions import QUESTIONS


def documents(
    question: str,
    alphabet: str = "program",
    split: str = "test",
    seed: int = 1,
    size: int = 200,
    dataset: dict[str, Any] | None = None,
    **_: object,
) -> dict[str, datasets.Dataset]:
    """Return the documents of a task, as a split of the same name.

    Args:
        question: a question of docs/grading.md.
        alphabet: ``program``, or ``normal`` or ``alternate`` symbols with an explanation (comparisons only).
        split, seed, dataset: as for :func:`cadmus.tasks`.
        size: number of documents.

    Raises:
        InputError: no such split, alphabet or field.
    """
    found = islice(
        tasks(QUESTIONS[question].template, split, question=question, seed=seed, dataset=dataset), size
    )
    rows = [
        {
            **task._asdict(),
            "text": question_text(task.prompt, question, alphabet),
            "answer": answer_text(task.reference, alphabet),
            "alphabet": alphabet,
            # As JSON: Arrow would give all documents the same keys.
            "dataset": json.dumps(dataset or {}),
        }
        for task in found
    ]
    return {"test": datasets.Dataset.from_list(rows)}


def grade(document: dict[str, Any], answers: list[str]) -> dict[str, float]:
    """Return the metrics of an answer."""
    completion = completion_in(answers[0] if answers else None, document["alphabet"])
    task = Task(document["prompt"], document["reference"], document["question"])
    verdict = verify(task, completion, dataset=json.loads(document["dataset"]))
    return {"solved": float(verdict.solved), "verified": float(verdict.verified)}
