"""Programs of Cadmus as the taskset ``cadmus_verifiers`` of verifiers."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from cadmus import Task, Verdict, prefix_values, tasks, verify
from cadmus.errors import InputError
from cadmus.evaluate.prompts.language_models import answer_text, completion_in, question_text

try:
    import verifiers.v1 as vf
except ModuleNotFoundError:
    raise InputError(
        "cadmus_verifiers needs verifiers, which is not installed; pip install verifiers"
    ) from None

__all__ = ["CadmusTaskset"]


class CadmusData(vf.TaskData):
    """A task, and how it is asked."""

    program: str
    reference: str
    split: str
    question: str
    alphabet: str
    dataset: dict[str, Any]


class CadmusTask(vf.Task[CadmusData]):
    """A program to complete."""

    def verdict(self, reply: str, ended: bool) -> Verdict:
        """Grade a reply."""
        data, completion = self.data, completion_in(reply, self.data.alphabet)
        task = Task(data.program, data.reference, data.question)
        return verify(task, completion, ended=ended, dataset=data.dataset)

    @vf.reward
    async def solved(self, trace: vf.Trace) -> float:
        """1 if the reply solves the question, else 0."""
        return float(self.verdict(trace.last_reply, not trace.is_truncated).solved)

    @vf.metric
    async def verified(self, trace: vf.Trace) -> float:
        """1 if the reply makes the program true, else 0."""
        return float(self.verdict(trace.last_reply, not trace.is_truncated).verified)

    @vf.metric
    async def value(self, trace: vf.Trace) -> float:
        """The mean value after the instructions of the reply: how long it could still solve the question."""
        data, completion = self.data, completion_in(trace.last_reply, self.data.alphabet)
        task = Task(data.program, data.reference, data.question, data.split)
        return float(prefix_values(task, completion, dataset=data.dataset).probability[:-1].mean())

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Tell whether the reference solves the question."""
        return self.verdict(answer_text(self.data.reference, self.data.alphabet), True).solved


class CadmusConfig(vf.TasksetConfig):
    """Programs to ask about, as for :func:`cadmus.tasks`; ``dataset`` sets the difficulty."""

    template: str = "less_greater"
    question: str | None = None
    split: str = "train"
    seed: int = 1
    start: int = 0
    alphabet: str = "program"
    dataset: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "CadmusConfig":
        try:
            self.tasks()
            question_text("", self.question or self.template, self.alphabet)
        except InputError as error:
            raise ValueError(error) from None
        return self

    def tasks(self) -> Iterator[Any]:
        """Return the tasks, see :func:`cadmus.tasks`."""
        names = ("template", "split", "question", "seed", "start", "dataset")
        return tasks(**{name: getattr(self, name) for name in names})


class CadmusTaskset(vf.Taskset[CadmusTask, CadmusConfig]):
    """An endless taskset: limit it with ``-n``."""

    INFINITE = True

    def load(self) -> Iterator[CadmusTask]:
        alphabet, dataset = self.config.alphabet, self.config.dataset
        for task in self.config.tasks():
            fields = task._asdict() | {"program": task.prompt, "alphabet": alphabet, "dataset": dataset}
            fields["prompt"] = question_text(task.prompt, task.question, alphabet)
            yield CadmusTask(CadmusData(**fields), self.config.task)
