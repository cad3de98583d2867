"""Speed of tasks and verdicts, as RL environments and evaluation harnesses draw them."""

from itertools import islice

from cadmus import tasks, verify
from cadmus.bench import Facts, Measured, median_seconds
from cadmus.evaluate.questions import QUESTIONS
from cadmus.tools import progress

TASKS = 2_000
REPEATS = 3
SPLITS = ("train", "test")


def bench_tasks() -> Measured:
    """Measure :func:`cadmus.tasks` and :func:`cadmus.verify` for each question on one core.

    Rates are medians of :data:`REPEATS`; every repeat draws from its start again.
    """
    rows: dict[str, Facts] = {}
    for question in progress("questions", QUESTIONS, unit="question"):
        for split in SPLITS:
            rows[f"{question} {split}"] = _rates(question, split)
    return Measured({"tasks": TASKS, "repeats": REPEATS}, rows)


def _rates(question: str, split: str) -> Facts:
    template = QUESTIONS[question].template

    def draw(n: int) -> list[tuple[str, ...]]:
        return list(islice(tasks(template, split, question=question), n))

    # The first call compiles.
    draw(1)
    prompts, references, _, _, questions = (list(column) for column in zip(*draw(TASKS), strict=True))

    seconds = median_seconds(
        {
            "first": lambda: draw(1),
            "tasks": lambda: draw(TASKS),
            "verify": lambda: verify(prompts, references, references, questions),
        },
        REPEATS,
    )
    return {
        "first": round(seconds["first"], 3),
        "tasks": round(TASKS / seconds["tasks"]),
        "verify": round(TASKS / seconds["verify"]),
    }
