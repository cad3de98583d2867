"""Questions of Cadmus as the task ``cadmus`` of Inspect."""

from itertools import islice
from typing import Any

from cadmus import Task as Program
from cadmus import tasks, verify
from cadmus.errors import InputError, suggest
from cadmus.evaluate.prompts.language_models import answer_text, completion_in, question_text
from cadmus.evaluate.questions import QUESTIONS

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import GenerateConfig
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.solver import TaskState, generate
except ModuleNotFoundError:
    raise InputError(
        "cadmus_inspect_ai needs inspect-ai, which is not installed; pip install inspect-ai"
    ) from None


@task
def cadmus(
    question: str = "less_greater",
    split: str = "test",
    seed: int = 1,
    size: int = 200,
    alphabet: str = "program",
    dataset: dict[str, Any] | None = None,
) -> Task:
    """Ask a model to complete programs; those that solve the question are correct.

    Args:
        question: a question of docs/grading.md.
        split, seed, dataset: as for :func:`cadmus.tasks`; ``dataset`` sets the difficulty.
        size: number of programs.
        alphabet: ``program`` asks with the program alone; ``normal`` and ``alternate`` with an explanation in
            these symbols (comparisons only).

    Raises:
        InputError: no such question, split, alphabet or field.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"size: must be a whole number of at least 1, got {size!r}")
    if question not in QUESTIONS:
        raise InputError(f"no question {question!r}; {suggest(question, QUESTIONS)}")
    endless = tasks(QUESTIONS[question].template, split, question=question, seed=seed, dataset=dataset)
    samples = [
        Sample(
            input=question_text(found.prompt, question, alphabet),
            target=answer_text(found.reference, alphabet),
            metadata=found._asdict(),
        )
        for found in islice(endless, size)
    ]
    return Task(
        dataset=MemoryDataset(samples, f"{question}, {split}"),
        solver=generate(),
        scorer=solved(alphabet, dataset),
        config=GenerateConfig(temperature=0.0, max_tokens=64 if alphabet == "program" else None),
    )


@scorer(metrics=[accuracy(), stderr()])
def solved(alphabet: str, dataset: dict[str, Any] | None) -> Scorer:
    """Score a completion as correct if it solves the question; the explanation is the reason."""

    async def score(state: TaskState, target: Target) -> Score:
        output, completion = state.output, completion_in(state.output.completion, alphabet)
        program = Program(**state.metadata)
        verdict = verify(program, completion, ended=output.stop_reason == "stop", dataset=dataset)
        return Score(
            value=CORRECT if verdict.solved else INCORRECT, answer=completion, explanation=verdict.reason
        )

    return score
