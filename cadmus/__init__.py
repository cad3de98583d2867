"""True programs of an integer stack machine, a small model trained on them, and controlled experiments.

>>> from cadmus import Cadmus, run, sample, tasks, trace, verify
>>> run("34+7=").true
True

Names are imported at first use, so that ``import cadmus`` and the command line start fast.
"""

import os
from importlib import import_module

# As typing has it, whose import takes milliseconds in which Ctrl-C would print a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from cadmus.api import Reason, Task, Verdict, sample, tasks, verify
    from cadmus.model.inference import Cadmus
    from cadmus.vm.reference import run, trace

__all__ = [
    "Cadmus",
    "Reason",
    "Task",
    "Verdict",
    "__version__",
    "run",
    "sample",
    "tasks",
    "trace",
    "verify",
]

# Read by GNU OpenMP when PyTorch loads it. By default, waiting threads spin for milliseconds, which makes a
# machine with busy cores 10x slower; with this they sleep soon, at no cost on free cores (docs/log.md).
os.environ.setdefault("GOMP_SPINCOUNT", "30000")

_MODULES = {
    "Cadmus": "cadmus.model.inference",
    "Reason": "cadmus.api",
    "Task": "cadmus.api",
    "Verdict": "cadmus.api",
    "run": "cadmus.vm.reference",
    "sample": "cadmus.api",
    "tasks": "cadmus.api",
    "trace": "cadmus.vm.reference",
    "verify": "cadmus.api",
}
_EXTRAS = {name: "model" if name == "Cadmus" else "sample" for name in _MODULES.keys() - {"run", "trace"}}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from cadmus.distribution import VERSION

        return VERSION
    if name not in _MODULES:
        raise AttributeError(f"module 'cadmus' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        from cadmus.distribution import missing_extra

        raise missing_extra(error, f"cadmus.{name}", _EXTRAS[name]) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
