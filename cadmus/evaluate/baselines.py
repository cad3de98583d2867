"""Trivial policies, graded like the model, and near-duplicates of training programs."""

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.common.progress import progress
from cadmus.config import Dataset
from cadmus.dataset.manifest import read_manifest
from cadmus.dataset.reader import stream_split
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.grading import Policy, Task, grade
from cadmus.evaluate.ngrams import NGrams
from cadmus.evaluate.questions import things_asked
from cadmus.programs import Programs, Samples

BASELINES = {
    "ends_at_once": "Ends at once",
    "constant": "Best constant",
    "most_frequent": "Most frequent",
    "ngram": "5-gram",
}
"""Baselines and their titles in tables:

* ``ends_at_once`` completes every prompt with nothing;
* ``constant`` completes it with the one instruction that solves most of its question's test programs;
* ``most_frequent`` with the most frequent completion of its question in the training set;
* ``ngram`` with the likeliest instructions of a 5-gram model over the training programs.
"""
_FREQUENT = 1_000
_CONSTANTS = [row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END]


class Learned:
    """Knowledge of the baselines, from one pass over a training set.

    Attributes:
        ngrams: of all programs.
        most_frequent: most frequent completion of each question.
        seen: what the training programs of each question ask about, as far as ``tasks`` ask about it too.
    """

    def __init__(self, directory: Path, tasks: list[Task]) -> None:
        """Read the training split of the dataset in ``directory``.

        Raises:
            InputError: as :func:`cadmus.dataset.reader.stream_split`.
        """
        self.ngrams = NGrams()
        self.most_frequent: dict[str, str] = {}
        self.seen: dict[str, set[str]] = {task.name: set() for task in tasks}
        completions: dict[str, Counter[str]] = {task.name: Counter() for task in tasks}
        asked = {
            task.name: things_asked(task.question, task.programs, task.prompt_length).unique()
            for task in tasks
        }
        files = [file for file in read_manifest(directory)["files"] if file["split"] == "train"]
        shards = stream_split(directory, "train")
        for file, shard in zip(progress("baselines", files), shards, strict=True):
            self.ngrams.count(shard.programs)
            for task in tasks:
                if task.question.template == file["template"]:
                    completions[task.name].update(_completions(task, shard))
                    found = things_asked(task.question, shard.programs, shard.prompt_length)
                    self.seen[task.name].update(found.filter(found.is_in(asked[task.name].implode())))
        for name, counts in completions.items():
            # Equally frequent ones: the first in the alphabet.
            self.most_frequent[name] = min(counts, key=lambda text: (-counts[text], text), default="")


def grade_baselines(tasks: list[Task], learned: Learned, dataset: Dataset) -> pl.DataFrame:
    """Grade every baseline.

    Returns:
        The rows of :func:`cadmus.evaluate.grading.grade` of each of :data:`BASELINES`.
    """
    constants = {task.name: _best_constant(task, dataset) for task in tasks}
    policies: dict[str, Policy] = {
        "ends_at_once": lambda _, prompts: _always("", prompts),
        "constant": lambda question, prompts: _always(constants[question], prompts),
        "most_frequent": lambda question, prompts: _always(learned.most_frequent[question], prompts),
        "ngram": lambda _, prompts: learned.ngrams.complete(prompts, dataset.max_length),
    }
    return pl.concat(grade(tasks, policies[name], name, dataset) for name in BASELINES)


def _completions(task: Task, shard: Samples) -> dict[str, int]:
    """Count the most frequent completions of training programs; the rare ones of a shard are left out."""
    rows, prompt_length = task.question.cut(shard)
    rest = shard.programs.take(rows).suffixes(prompt_length)
    counts = pl.Series("completion", rest.to_arrow()).value_counts()
    most = counts.sort("count", "completion", descending=[True, False]).head(_FREQUENT)
    return dict(most.iter_rows())


def _best_constant(task: Task, dataset: Dataset) -> str:
    """Return the instruction that solves most programs, in hindsight; the first of equals."""
    solved = [
        int(task.question.solves(Completed(task.programs, task.prompt_length, *policy, dataset)).sum())
        for policy in (_always(symbol, task.programs) for symbol in _CONSTANTS)
    ]
    return _CONSTANTS[int(np.argmax(solved))]


def _always(text: str, prompts: Programs) -> tuple[Programs, np.ndarray]:
    """Complete every prompt with ``text``."""
    n = len(prompts)
    data = np.tile(np.frombuffer(text.encode("ascii"), np.uint8), n)
    return Programs(data, np.arange(n + 1, dtype=np.int64) * len(text)), np.ones(n, np.bool_)
