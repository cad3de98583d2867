"""The kinds of errors that Cadmus distinguishes, and the errors of libraries in one line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

_LONGEST = 1_200
"""Characters of a message; a value in a file may have any length."""
_ENDING = 200
"""Those of the end of a longer one, which says what would be right."""


class CadmusError(Exception):
    """Base class of the errors that Cadmus raises on purpose."""


class InputError(CadmusError, ValueError):
    """Bad input from the user.

    The message is one line that names the key, file or position, the problem and the fix. The command line
    prints it without a traceback and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        # Messages of libraries may have several lines; files and servers may hold any character.
        line = printable(" ".join(line.strip() for line in message.splitlines()))
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST - _ENDING]} … {line[-_ENDING:]}"
        super().__init__(line)


class RankLocalError(InputError):
    """Bad input that only one rank of a training run has found; other ranks may be waiting for it."""


class Interrupted(CadmusError):
    """A signal stopped the command at a point from which it resumes; the message says how. Exit code 1."""


class ModelOutputError(CadmusError):
    """A model's answer that cannot be graded as a program. Graders catch and count it; users never see it."""


class Defect(CadmusError):
    """A violated invariant of Cadmus itself, shown with a traceback; please report it."""


@contextmanager
def reading(path: PathLike[str] | str, fix: str = "") -> Iterator[None]:
    """Report in one line that a file cannot be read, whatever error a library raises for its contents.

    The block holds only the library calls that open, decode and parse the file: a damaged file takes parsers
    by surprise, in errors of any type.

    Args:
        path: the file.
        fix: ends the message, such as "write it again".
    """
    fix = f"; {fix}" if fix else ""
    try:
        yield
    except CadmusError:
        raise
    except RecursionError:
        raise InputError(f"{path}: nested too deeply{fix}") from None
    except MemoryError:
        raise InputError(f"{path}: needs more memory than there is{fix}") from None
    except OSError as error:
        hint = near_path(path) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read {path}: {error.strerror or error}{hint or fix}") from None
    except UnicodeError:
        raise InputError(f"{path}: not UTF-8{fix}") from None
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")[:200] or type(error).__name__
        raise InputError(f"{path}: not readable ({reason}){fix}") from None


@contextmanager
def naming(source: PathLike[str] | str) -> Iterator[None]:
    """Begin the message of an :class:`InputError` with ``source``, which the block does not know."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


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
    close = closest(name, names)
    return f"did you mean {close!r}?" if close else f"there are {', '.join(names)}"


def closest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that someone who typed ``name`` most likely meant; None if none is close.

    Args:
        cutoff: smallest similarity of two close names, 1 for equal ones.
    """
    import difflib

    return next(iter(difflib.get_close_matches(str(name), list(names), 1, cutoff)), None)


def near_path(path: PathLike[str] | str) -> str:
    """Return a hint for a path that does not exist, `; did you mean 'PATH'?`, if a name in it is misspelt."""
    place, missing = Path(path), list[str]()
    try:
        while not place.exists():
            missing.append(place.name)
            place = place.parent
        if not missing:
            return ""
        for name in reversed(missing):
            names = [entry.name for entry in place.iterdir() if not entry.name.startswith(".")]
            # A missing file of a model is not one with a similar name.
            meant = closest(name, names, cutoff=0.75)
            if meant is None:
                return ""
            place /= meant
    except OSError:
        return ""
    return f"; did you mean '{place}'?"
