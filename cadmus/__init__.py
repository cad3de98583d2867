"""Cadmus: true programs of an integer stack machine, a small model trained on them, controlled experiments.

>>> from cadmus import Cadmus, run, sample, trace
>>> run("34+7=").true
True

What a name needs is imported when it is first used, so that ``import cadmus`` and the command line start
at once.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cadmus.api import sample
    from cadmus.model.inference import Cadmus
    from cadmus.vm.reference import run, trace

__all__ = ["Cadmus", "__version__", "run", "sample", "trace"]

# GNU OpenMP reads this when PyTorch loads it.  By default a thread that waits for the others spins for
# milliseconds, and where another process wants the cores that costs a factor of ten and more; with this
# it soon sleeps, and on free cores nothing is lost (docs/log.md).
os.environ.setdefault("GOMP_SPINCOUNT", "30000")

_HOMES = {
    "Cadmus": "cadmus.model.inference",
    "run": "cadmus.vm.reference",
    "sample": "cadmus.api",
    "trace": "cadmus.vm.reference",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("cadmus")
    if name not in _HOMES:
        raise AttributeError(f"module 'cadmus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
