"""A reward of one's own: a Python function, in a file that the config names, of tasks and completions."""

import importlib.util
import math
import reprlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cadmus import isa
from cadmus.errors import InputError, RankLocalError
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.questions import Task

Reward = Callable[[list[Task], list[str]], Sequence[float]]


class OwnReward:
    """The function ``NAME`` of ``FILE.py``, from ``FILE.py:NAME``, with errors of one line.

    It gets n tasks and n completions, each with its end ``.`` unless it was cut off, and returns n numbers.
    """

    def __init__(self, named: str) -> None:
        self.named = named
        file, _, name = named.rpartition(":")
        spec = importlib.util.spec_from_file_location(Path(file).stem, file)
        if spec is None or spec.loader is None or not Path(file).is_file():
            raise InputError(f"{named}: no file {file}; give FILE.py:FUNCTION")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise InputError(f"{file}: {type(error).__name__}: {error}") from error
        function = getattr(module, name, None)
        if not callable(function):
            raise InputError(f"{named}: {file} has no function {name}")
        self._function: Reward = function

    def __call__(self, question: str, completed: Completed) -> np.ndarray:
        """Return the rewards of completions of one question: float64, shape (n,)."""
        prompts = completed.prompts.to_strings()
        tasks = [
            Task(prompt, reference, question, "train")
            for prompt, reference in zip(prompts, completed.reference_texts, strict=True)
        ]
        ended = zip(completed.texts, completed.ended.tolist(), strict=True)
        texts = [text + isa.END if has_end else text for text, has_end in ended]
        try:
            rewards = [float(reward) for reward in self._function(tasks, texts)]
        except Exception as error:
            # The other ranks may have completions for which it works.
            raise RankLocalError(f"{self.named}: {type(error).__name__}: {error}") from error
        if len(rewards) != len(texts):
            problem = f"must return {len(texts)} numbers, one for each completion, got {len(rewards)}"
            raise RankLocalError(f"{self.named}: {problem}")
        for task, text, reward in zip(tasks, texts, rewards, strict=True):
            if not math.isfinite(reward):
                shown = reprlib.repr(task.prompt + text)
                raise RankLocalError(f"{self.named}: must return finite numbers, got {reward} for {shown}")
        return np.array(rewards)
