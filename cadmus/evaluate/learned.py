"""Knowledge of the baselines: completions, n-grams and subjects of the training set."""

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from cadmus.dataset.manifest import read_manifest
from cadmus.dataset.reader import stream_split
from cadmus.evaluate.grading import Task
from cadmus.evaluate.ngrams import NGrams
from cadmus.evaluate.questions import things_asked
from cadmus.programs import Programs, Samples, stack
from cadmus.tools import progress

_FREQUENT = 10_000
_EXAMPLES = 50_000
_COUNTED = 200_000
"""Distinct completions of a question that are counted; of more, the rarer half is dropped, for memory."""


class Learned:
    """Knowledge of the baselines, from one pass over a training set.

    Attributes:
        ngrams: of all programs.
        frequent: the 10,000 most frequent completions of each question, equally frequent ones in the order of
            the alphabet.
        prompts, completions: those of the first 50,000 training programs of each question.
        seen: what the training programs of each question ask about, as far as ``tasks`` ask about it too.
    """

    def __init__(self, directory: Path, tasks: list[Task]) -> None:
        """Read the training split of the dataset in ``directory``."""
        self.ngrams = NGrams()
        none = Programs.from_strings([])
        self.prompts = {task.name: none for task in tasks}
        self.completions = {task.name: none for task in tasks}
        self.seen: dict[str, set[str]] = {task.name: set() for task in tasks}
        counts: dict[str, Counter[str]] = {task.name: Counter() for task in tasks}
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
                    counts[task.name] += self._read(task, shard)
                    if len(counts[task.name]) > _COUNTED:
                        counts[task.name] = Counter(_most(counts[task.name], _COUNTED // 2))
                    found = things_asked(task.question, shard.programs, shard.prompt_length)
                    self.seen[task.name].update(found.filter(found.is_in(asked[task.name].implode())))
        self.frequent = {name: [*_most(of_name, _FREQUENT)] for name, of_name in counts.items()}

    def _read(self, task: Task, shard: Samples) -> Counter[str]:
        """Keep the first prompts and completions; count all completions but the rare ones of a shard."""
        rows, prompt_length = task.question.cut(shard)
        programs = shard.programs.take(rows)
        rest = programs.suffixes(prompt_length)
        first = np.arange(min(len(rows), _EXAMPLES - len(self.prompts[task.name])))
        for kept, pieces in ((self.prompts, programs.prefixes(prompt_length)), (self.completions, rest)):
            kept[task.name] = stack([kept[task.name], pieces.take(first)])
        counts = pl.Series("completion", rest.to_arrow()).value_counts()
        most = counts.sort("count", "completion", descending=[True, False]).head(_FREQUENT)
        return Counter(dict(most.iter_rows()))


def _most(counts: Counter[str], most: int) -> dict[str, int]:
    """Return the most frequent texts; of equals the first in the alphabet."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])
