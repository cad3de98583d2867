"""True programs of an integer stack machine, a small model trained on them, and controlled experiments.

>>> from cadmus import Cadmus, run, sample, trace
>>> run("34+7=").true
True

Names are imported at first use, so that ``import cadmus`` and the command line start fast.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cadmus.api import sample
    from cadmus.model.inference import Cadmus
    from cadmus.vm.reference import run, trace

__all__ = ["Cadmus", "__version__", "run", "sample", "trace"]

# Read by GNU OpenMP when PyTorch loads it. By default, waiting threads spin for milliseconds, which makes a
# machine with busy cores 10x slower; with this they sleep soon, at no cost on free cores (docs/log.md).
os.environ.setdefault("GOMP_SPINCOUNT", "30000")

_MODULES = {
    "Cadmus": "cadmus.model.inference",
    "run": "cadmus.vm.reference",
    "sample": "cadmus.api",
    "trace": "cadmus.vm.reference",
}
_EXTRAS = {"Cadmus": "model", "sample": "sample"}


def __getattr__(name: str) -> Any:
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
