"""The kinds of errors that Cadmus distinguishes, and the errors of libraries in one line."""

import difflib
import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import UnionType


class CadmusError(Exception):
    """Base class of the errors that Cadmus raises on purpose."""


class InputError(CadmusError, ValueError):
    """Bad input from the user, in one line that names the key, file or position, the problem and the fix.

    The command line prints it without a traceback and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        # Messages of libraries may have several lines; files and servers may hold any character, any number
        # of times. The end of a message says what would be right.
        line = printable(" ".join(line.strip() for line in message.splitlines()))
        super().__init__(f"{line[:1_000]} … {line[-200:]}" if len(line) > 1_200 else line)


class RankLocalError(InputError):
    """Bad input that only one rank of a training run has found; other ranks may be waiting for it."""


class Interrupted(CadmusError):
    """A signal stopped the command at a point from which it resumes; the message says how. Exit code 1."""


class Defect(CadmusError):
    """A violated invariant of Cadmus itself, shown with a traceback; please report it."""


@contextmanager
def reading(path: PathLike[str] | str, fix: str = "") -> Iterator[None]:
    """Report in one line that a file cannot be read, whatever error a library raises; ``fix`` ends it."""
    fix = f"; {fix}" if fix else ""
    try:
        # A reader of a FIFO would wait for ever.
        if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
            raise InputError(f"{path}: not a regular file{fix}")
        yield
    except CadmusError:
        raise
    except OSError as error:
        # Arrow's own text has the path again.
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(f"cannot read {path}: {reason}{fix}") from None
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")[:200] or type(error).__name__
        raise InputError(f"{path}: not readable ({reason}){fix}") from None


@contextmanager
def naming(source: PathLike[str] | str, fix: str = "") -> Iterator[None]:
    """Begin the message of an :class:`InputError` with ``source``, which the block does not know.

    ``fix`` ends it.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}{f'; {fix}' if fix else ''}") from None


def check_counts(**counts: int) -> None:
    """Check arguments that must be whole numbers of at least 0."""
    for name, value in counts.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
            raise InputError(f"{name}: must be a whole number of at least 0, got {value!r}")


def check_types(name: str, values: Sequence[object], kind: type | UnionType, form: str) -> None:
    """Check that all values of a list are of a kind, which ``form`` describes."""
    # By type first: lists may be long, and have few types.
    for wrong in (found for found in set(map(type, values)) if not issubclass(found, kind)):
        row, value = next((row, value) for row, value in enumerate(values) if type(value) is wrong)
        raise InputError(f"{name} {row}: must be {form}, got {reprlib.repr(value)}")


def printable(text: str) -> str:
    r"""Escape control and formatting characters, which could change what a terminal shows.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def suggest(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: the closest of ``names`` or, if none is close, all of them.

    >>> suggest("equalty", ["equality", "random"])
    "did you mean 'equality'?"
    >>> suggest("sums", ["equality", "random"])
    'there are equality, random'
    """
    names = list(names)
    close = difflib.get_close_matches(str(name), names, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
