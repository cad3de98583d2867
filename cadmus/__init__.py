"""True programs of an integer stack machine, a small model trained on them, and controlled experiments.

>>> from cadmus import Cadmus, run, sample, tasks, trace, verify
>>> run("34+7=").true
True

Names are imported at first use, so that ``import cadmus`` and the command line start fast.
"""

import os
from importlib import import_module

from cadmus.caches import provide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cadmus.api import Reason, Verdict, prefix_values, sample, tasks, verify
    from cadmus.evaluate.questions import Task
    from cadmus.experiments.external import evaluate_model
    from cadmus.model.inference import Cadmus
    from cadmus.vm.reference import run, stacks, trace

__all__ = [
    "Cadmus",
    "Reason",
    "Task",
    "Verdict",
    "__version__",
    "evaluate_model",
    "prefix_values",
    "run",
    "sample",
    "stacks",
    "tasks",
    "trace",
    "verify",
]

# Read by GNU OpenMP when PyTorch loads it. By default, waiting threads spin for milliseconds, which makes a
# machine with busy cores 10x slower; with this they sleep soon, at no cost on free cores
# (log: tokens per second of the training step).
os.environ.setdefault("GOMP_SPINCOUNT", "30000")
provide()

# Module and extra of each name; the reference VM needs no extra.
_SOURCES = {
    "Cadmus": ("cadmus.model.inference", "model"),
    "Reason": ("cadmus.api", "sample"),
    "Task": ("cadmus.evaluate.questions", "sample"),
    "Verdict": ("cadmus.api", "sample"),
    "evaluate_model": ("cadmus.experiments.external", "model"),
    "prefix_values": ("cadmus.api", "sample"),
    "run": ("cadmus.vm.reference", ""),
    "sample": ("cadmus.api", "sample"),
    "stacks": ("cadmus.vm.reference", ""),
    "tasks": ("cadmus.api", "sample"),
    "trace": ("cadmus.vm.reference", ""),
    "verify": ("cadmus.api", "sample"),
}


def __getattr__(name: str) -> object:
    # Not from cadmus, which would ask this function.
    from cadmus.distribution import VERSION, missing_extra

    if name == "__version__":
        return VERSION
    if name not in _SOURCES:
        raise AttributeError(f"module 'cadmus' has no attribute {name!r}")
    module, extra = _SOURCES[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise missing_extra(error, f"cadmus.{name}", extra) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
