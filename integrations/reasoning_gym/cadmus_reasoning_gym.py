"""Programs of Cadmus as the dataset ``cadmus`` of Reasoning Gym."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from cadmus import Task, tasks, verify
from cadmus.api import CHUNK
from cadmus.errors import InputError
from cadmus.llm.prompt import answer_text, completion_in, question_text

try:
    from reasoning_gym.factory import ProceduralDataset, register_dataset
except ModuleNotFoundError:
    raise InputError(
        "cadmus_reasoning_gym needs reasoning-gym, which is not installed; pip install reasoning-gym"
    ) from None


@dataclass
class CadmusConfig:
    """Programs to ask about.

    Attributes:
        template, question, split, dataset: as for :func:`cadmus.tasks`; ``dataset`` sets the difficulty.
        alphabet: ``program`` asks with the program alone, ``normal`` and ``alternate`` with an explanation in
            these symbols (comparisons only).
        seed: at least 0, 1 if None; the same seed gives the same items.
        size: number of items.
    """

    template: str = "less_greater"
    question: str | None = None
    split: str = "train"
    alphabet: str = "program"
    dataset: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    size: int = 500

    def validate(self) -> None:
        """Check all fields.

        Raises:
            InputError: one is wrong.
        """
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InputError(f"size: must be a whole number of at least 1, got {self.size!r}")
        self.tasks(0)
        question_text("", self.question or self.template, self.alphabet)

    def tasks(self, start: int) -> Iterator[Task]:
        """Return the tasks from ``start``, see :func:`cadmus.tasks`."""
        names = ("template", "split", "question", "dataset")
        seed = 1 if self.seed is None else self.seed
        return tasks(**{name: getattr(self, name) for name in names}, seed=seed, start=start)


class CadmusDataset(ProceduralDataset):
    """Tasks as items with a question, an answer and metadata."""

    def __init__(self, config: CadmusConfig) -> None:
        super().__init__(config=config, seed=1 if config.seed is None else config.seed, size=config.size)
        self._chunk = lru_cache(maxsize=4)(lambda chunk: [*islice(config.tasks(chunk * CHUNK), CHUNK)])

    def __getitem__(self, idx: int) -> dict[str, Any]:
        if not 0 <= idx < self.size:
            raise IndexError(idx)
        chunk, place = divmod(idx, CHUNK)
        task = self._chunk(chunk)[place]
        return {
            "question": question_text(task.prompt, task.question, self.config.alphabet),
            "answer": answer_text(task.reference, self.config.alphabet),
            "metadata": {"source_dataset": "cadmus", "source_index": idx, "task": task._asdict()},
        }

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """Return 1 if the answer solves the question of an item, else 0."""
        task = entry["metadata"]["task"]
        texts = task["prompt"], completion_in(answer or "", self.config.alphabet), task["reference"]
        verdict = verify(*texts, task["question"], ended=answer is not None, dataset=self.config.dataset)
        return float(verdict.solved)


register_dataset("cadmus", CadmusDataset, CadmusConfig)
