"""Numba compilation with a cache that is valid for all source files of the compiled VM."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event

from cadmus import isa

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SOURCES = (Path(isa.__file__), *sorted(Path(__file__).parent.glob("*.py")))
_STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()


class _Notice(event.Listener):
    """Says on a terminal, once, why the first command after an installation takes half a minute."""

    said = False

    def on_start(self, compilation: Any) -> None:
        if not self.said and sys.stderr.isatty():
            print("compiling the machine, once ...", file=sys.stderr, flush=True)
        self.said = True

    def on_end(self, compilation: Any) -> None:
        pass


# Functions that are in the cache do not reach it.
event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]


def jit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile ``function`` at its first call and cache the machine code on disk.

    Divisors are checked before a division, so the checks of Python's error model are not needed.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    # The machine code contains constants and callees from other files, but Numba's own stamp covers only the
    # file of the function. A plain function, with NUMBA_DISABLE_JIT, has no cache.
    cache = getattr(compiled, "_cache", None)
    if cache is not None:
        assert hasattr(cache._cache_file, "_source_stamp"), "another Numba, whose cache may be stale"
        cache._cache_file._source_stamp = _STAMP
    return compiled
