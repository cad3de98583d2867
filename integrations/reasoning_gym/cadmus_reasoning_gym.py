"""Programs of Cadmus as the dataset ``cadmus`` of Reasoning Gym."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from cadmus import Task, tasks, verify
from cadmus.api import CHUNK
from cadmus.config import OF_THE_PAPER, merged
from cadmus.errors import InputError
from cadmus.evaluate.prompts.language_models import answer_text, completion_in, question_text

try:
    from reasoning_gym.coaching import BaseCurriculum, ScalarAttributeDefinition
    from reasoning_gym.factory import ProceduralDataset, register_dataset
except ModuleNotFoundError:
    raise InputError(
        "cadmus_reasoning_gym needs reasoning-gym, which is not installed; pip install reasoning-gym"
    ) from None

ALL = "all"
"""In the place of a template: all of them, in turn."""
LEVELS = range(4)


def ranges(level: int) -> dict[str, Any]:
    """Return the section ``dataset`` of a level.

    At a higher one, expressions, sequences and random programs are longer, numbers are larger, and functions
    have fewer examples.
    """
    expressions = {"expression_lengths": [[3], [5], [5, 7], [7]][level]}
    sequences = {"sequence_length": [1, 2 + level]}
    return {
        "values": {"low": -10 * 2**level, "high": 10 * 2**level},
        "templates": {
            **dict.fromkeys(("basic_math", "equality", "less_greater"), expressions),
            "random": {"length": [4, 8 * (level + 1)]},
            **dict.fromkeys(("basic_sequences", "advanced_sequences", "apply_labels"), sequences),
            "complete_algorithm": {**sequences, "examples": [4 - level, 7 - level]},
        },
    }


@dataclass
class CadmusConfig:
    """Programs to ask about.

    Attributes:
        template, question, split: as for :func:`cadmus.tasks`. The template ``all`` has those of the
            paper in turn.
        level: difficulty, 0 to 3: the :func:`ranges` of lengths and numbers; None for the defaults of Cadmus.
        dataset: as for :func:`cadmus.tasks`, on top of the level.
        alphabet: ``program`` asks with the program alone, ``normal`` and ``alternate`` with an explanation in
            these symbols (comparisons only).
        seed: at least 0, 1 if None; the same seed gives the same items.
        size: number of items.
    """

    template: str = "less_greater"
    question: str | None = None
    split: str = "train"
    level: int | None = None
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
        if self.level is not None and self.level not in LEVELS:
            raise InputError(f"level: must be {LEVELS[0]} to {LEVELS[-1]}, got {self.level!r}")
        for template in self.templates():
            self.tasks(template, 0)
            question_text("", self.question or template, self.alphabet)

    def templates(self) -> tuple[str, ...]:
        """Return the templates that take turns."""
        return OF_THE_PAPER if self.template == ALL else (self.template,)

    def section(self) -> dict[str, Any]:
        """Return the section ``dataset`` of the level, with the own fields on top."""
        return self.dataset if self.level is None else merged(ranges(self.level), self.dataset)

    def tasks(self, template: str, start: int) -> Iterator[Task]:
        """Return the tasks of a template from ``start``, see :func:`cadmus.tasks`."""
        options = {"question": self.question, "dataset": self.section(), "start": start}
        return tasks(template, self.split, seed=1 if self.seed is None else self.seed, **options)


class CadmusDataset(ProceduralDataset):
    """Tasks as items with a question, an answer and metadata."""

    def __init__(self, config: CadmusConfig) -> None:
        super().__init__(config=config, seed=1 if config.seed is None else config.seed, size=config.size)
        self._templates = config.templates()
        most = -(-config.size // len(self._templates))

        @lru_cache(maxsize=4 * len(self._templates))
        def chunk(template: str, number: int) -> list[Task]:
            start = number * CHUNK
            return [*islice(config.tasks(template, start), min(CHUNK, most - start))]

        self._chunk = chunk

    def __getitem__(self, idx: int) -> dict[str, Any]:
        if not 0 <= idx < self.size:
            raise IndexError(idx)
        turn, of = divmod(idx, len(self._templates))
        number, place = divmod(turn, CHUNK)
        task = self._chunk(self._templates[of], number)[place]
        return {
            "question": question_text(task.prompt, task.question, self.config.alphabet),
            "answer": answer_text(task.reference, self.config.alphabet),
            "metadata": {
                "source_dataset": "cadmus",
                "source_index": idx,
                "task": task._asdict(),
                "difficulty": {"template": task.template, "level": self.config.level},
            },
        }

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """Return 1 if the answer solves the question of an item, else 0."""
        task = Task(**entry["metadata"]["task"])
        completion = completion_in(answer, self.config.alphabet)
        return float(verify(task, completion, dataset=self.config.section()).solved)


class CadmusCurriculum(BaseCurriculum):
    """All templates, from level 0 on."""

    def __init__(self) -> None:
        super().__init__(CadmusCurriculum.__name__, partial(CadmusConfig, template=ALL))
        self._define_attributes(ScalarAttributeDefinition(name="level", field_name="level", levels=[*LEVELS]))


register_dataset("cadmus", CadmusDataset, CadmusConfig, CadmusCurriculum)
