"""The metrics of a training: a file with one JSON object per step.

======================== ==========================================================================
``step``                 steps done
``loss``                 mean over all targets, in nats
``completion_loss``      mean over the targets in completions, in nats
``state_loss``           weighted sum over the labels of a token, mean over all, in nats; null without
``tokens``, ``programs`` trained on since the start
``flops``                since the start, see :func:`cadmus.model.flops.training_flops`
``seconds``              since the start, over all resumed parts
``learning_rate``        of Adam
``tokens_per_second``    of this step
``fill``                 fraction of the computed tokens that are not padding
``verdict``              by question, the fractions of the completions sampled in this step that
                         :data:`cadmus.train.rollouts.COUNTS` names; null without any
======================== ==========================================================================
"""

import errno
import fcntl
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from cadmus.common.files import as_input_error, flush, replacing
from cadmus.errors import InputError, reading
from cadmus.train.errors import rank_local_errors

Progress = dict[str, Any]
"""The fields that checkpoints and exports hold as well: the last losses, and totals since the start."""
START: Progress = {
    "loss": None,
    "completion_loss": None,
    "tokens": 0,
    "programs": 0,
    "flops": 0.0,
    "seconds": 0.0,
}


class StepResult(NamedTuple):
    """Results of one step, over all ranks except for ``fill``; ``stop`` if a rank received a signal."""

    loss: float
    completion_loss: float
    state_loss: float | None
    learning_rate: float
    tokens: int
    programs: int
    flops: float
    fill: float
    verdict: dict[str, dict[str, float]] | None
    stop: bool


def advance(progress: Progress, result: StepResult, seconds: float) -> Progress:
    """Return the progress after one more step, which took ``seconds``."""
    return {
        "loss": result.loss,
        "completion_loss": result.completion_loss,
        "tokens": progress["tokens"] + result.tokens,
        "programs": progress["programs"] + result.programs,
        "flops": progress["flops"] + result.flops,
        "seconds": progress["seconds"] + seconds,
    }


def record(step: int, progress: Progress, result: StepResult, seconds: float) -> dict[str, Any]:
    """Return the metrics of a step."""
    return {
        "step": step,
        **progress,
        "state_loss": result.state_loss,
        "learning_rate": result.learning_rate,
        "tokens_per_second": result.tokens / seconds,
        "fill": result.fill,
        "verdict": result.verdict,
    }


@contextmanager
def metrics_writer(path: Path, step: int, enabled: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Open a metrics file to append to, without the lines that an interrupted run wrote after ``step``.

    Yields:
        A function that writes the record of a step; it does nothing unless ``enabled``.

    Raises:
        RankLocalError: the file cannot be written, holds something else, lacks one of the first ``step``
            steps, or another training writes to it.
    """
    if not enabled:
        yield lambda record: None
        return
    with rank_local_errors(), as_input_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as earlier:
            _lock(earlier, path)
            with reading(path, "choose another file for the metrics"):
                earlier.seek(0)
                lines = earlier.read().decode("utf-8").splitlines()
            kept = [line for line in lines if _step_of(line) <= step]
            if list(map(_step_of, kept)) != list(range(1, step + 1)):
                raise InputError(
                    f"{path}: damaged: must have one line for each of the steps 1 to {step} before the "
                    "checkpoint; restore it, or delete the checkpoints to start again"
                )
            with replacing(path) as temporary:
                temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
                file = temporary.open("a", encoding="utf-8", buffering=1)
                _lock(file, path)
            flush(path.parent)

    def write(record: dict[str, Any]) -> None:
        with rank_local_errors(), as_input_error(path):
            file.write(json.dumps(record) + "\n")

    try:
        yield write
    finally:
        # A line that could not be written has raised already.
        with suppress(OSError):
            file.close()


def _lock(file: IO[Any], path: Path) -> None:
    """Lock an open file until it is closed, on file systems that have locks.

    Raises:
        InputError: another training holds the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{path}: another training writes to it; choose another file") from None
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP):
            raise


def _step_of(line: str) -> float:
    """The step of a line; infinite if the line is truncated."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return math.inf
