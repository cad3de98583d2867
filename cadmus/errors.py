"""The kinds of errors that Cadmus distinguishes."""

from collections.abc import Iterable


class CadmusError(Exception):
    """Base class of the errors that Cadmus raises on purpose."""


class InputError(CadmusError):
    """Bad input from the user.

    The message is one line that names the key, file or position, the problem and the fix. The command line
    prints it without a traceback and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        # Messages of libraries may have several lines.
        super().__init__(" ".join(line.strip() for line in message.splitlines()))


class RankLocalError(InputError):
    """Bad input that only one rank of a training run has found; other ranks may be waiting for it."""


class ModelOutputError(CadmusError):
    """A model's answer that cannot be graded as a program. Graders catch and count it; users never see it."""


class Defect(CadmusError):
    """A violated invariant of Cadmus itself, shown with a traceback; please report it."""


def suggest(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: the closest of ``names`` or, if none is close, all of them.

    >>> suggest("equalty", ["equality", "random"])
    "did you mean 'equality'?"
    >>> suggest("sums", ["equality", "random"])
    'there are equality, random'
    """
    import difflib

    names = list(names)
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
