"""The kinds of failure that Cadmus tells apart.

An :class:`InputError` is the user's to mend and is shown as one line.  A :class:`ModelOutputError`
belongs to a model's answer: whoever grades it catches and counts it, no user sees it raised.  A
:class:`Defect` is ours; it keeps its traceback.
"""

from collections.abc import Iterable


class CadmusError(Exception):
    """Base of the errors that Cadmus raises on purpose."""


class InputError(CadmusError):
    """Bad input from the user.

    The message is one line that names the key, file or position, says what is wrong with it and what
    would be right.  The command line prints it without a traceback and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        # What a library said may have several lines.
        super().__init__(" ".join(line.strip() for line in message.splitlines()))


class RankLocalError(InputError):
    """Bad input that one rank of a training alone knows of; the other ranks may be waiting for it."""


class ModelOutputError(CadmusError):
    """An answer of a model that cannot be graded as a program; counted, never shown as a failure."""


class Defect(CadmusError):
    """An invariant of Cadmus itself does not hold; please report it."""


def suggest(name: str, names: Iterable[str]) -> str:
    """What to say of a name that is none of ``names``: the nearest of them or, if none is near, all.

    >>> suggest("equalty", ["equality", "random"])
    "did you mean 'equality'?"
    >>> suggest("sums", ["equality", "random"])
    'there are equality, random'
    """
    import difflib

    names = list(names)
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
