"""The metrics of a training: a file with one JSON object per step, and its progress on the terminal.

======================== ==========================================================================
``step``                 steps done
``loss``                 mean over all targets, in nats
``completion_loss``      mean over the targets in completions, in nats
``state_loss``           with state supervision, the weighted sum over the labels of a token, mean over all,
                         in nats
``reinforcement``        with reinforcement learning, by question, the fractions of the completions sampled
                         in this step that :data:`cadmus.train.objectives.reinforcement.COUNTS` names;
                         null at steps without any
``reinforcement_solved`` the mean fraction solved over these questions
``validation_loss``      at a snapshot, of completions of the validation split, in nats (for each template,
                         :data:`cadmus.train.validation.PROGRAMS` programs); null at other steps
``validation_solved``    of those programs, the mean fraction solved over the questions
``learning_rate``        of Adam
``fill``                 fraction of the computed tokens that are not padding
``tokens_per_second``    of this step
``tokens``, ``programs`` trained on since the start
``flops``                since the start, see :func:`cadmus.model.flops.training_flops`
``seconds``              since the start, over all resumed parts
======================== ==========================================================================

An objective of :mod:`cadmus.train.objectives` adds its own.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cadmus import store
from cadmus.config.fields import Count, NonNegative
from cadmus.errors import InputError, RankLocalError, reading
from cadmus.records import Record

LOG_SECONDS = 10.0
"""Time between two lines of progress."""


class Progress(Record):
    """The last losses, and totals since the start, which checkpoints and exports hold as well."""

    loss: NonNegative | None = None
    completion_loss: NonNegative | None = None
    tokens: Count = 0
    programs: Count = 0
    flops: NonNegative = 0
    seconds: NonNegative = 0


START = Progress().model_dump()
TOTALS = START.keys() - {"loss", "completion_loss"}


def advance(progress: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    """Return the progress after one more step, from its metrics alone."""
    return {name: progress[name] + step[name] if name in TOTALS else step[name] for name in progress}


class MetricsFile:
    """Appends the metrics of steps to a file; what an interrupted run wrote after ``step`` is dropped."""

    def __init__(self, path: Path, step: int) -> None:
        self._path = path
        lines = []
        if step:
            with reading(path, "delete the checkpoints to start again"):
                lines = path.read_text(encoding="utf-8").splitlines()[:step]
                steps = [json.loads(line)["step"] for line in lines]
            if steps != list(range(1, step + 1)):
                raise InputError(
                    f"{path}: damaged: must have one line for each of the steps 1 to {step} before the "
                    "checkpoint; restore it, or delete the checkpoints to start again"
                )
        store.write_text(path, "".join(f"{line}\n" for line in lines))
        # By line: whoever follows the file sees whole ones.
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, metrics: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(metrics) + "\n")
        except OSError as error:
            raise RankLocalError(f"cannot write {self._path}: {error.strerror}") from None

    def close(self) -> None:
        # A line that could not be written is still in the buffer, and fails again.
        with suppress(OSError):
            self._file.close()


class Display:
    """Shows the loss, the speed since the last line and the time left: a bar on a terminal, else lines."""

    def __init__(self, step: int, steps: int, log: Callable[[str], None], visible: bool) -> None:
        self.steps, self.log, self.visible = steps, log, visible
        hidden = not (visible and sys.stderr.isatty())
        self.bar = tqdm(total=steps, initial=step, unit="step", disable=hidden, mininterval=2, smoothing=0.1)
        self.since, self.start_step, self.tokens = time.perf_counter(), step, 0

    def show(self, step: int, loss: float, tokens: int) -> None:
        """Show a step, which trained on ``tokens``."""
        self.tokens += tokens
        elapsed = time.perf_counter() - self.since
        rate = f"{self.tokens / elapsed:,.0f} tokens/s"
        due = elapsed >= LOG_SECONDS or step == self.steps
        if not self.bar.disable:
            self.bar.set_postfix_str(f"loss {loss:.4f}, {rate}", refresh=False)
            self.bar.update()
        elif due and self.visible:
            minutes = elapsed / (step - self.start_step) * (self.steps - step) / 60
            self.log(f"step {step}/{self.steps}, loss {loss:.4f}, {rate}, {minutes:.1f} min left")
        if due:
            self.since, self.start_step, self.tokens = time.perf_counter(), step, 0
