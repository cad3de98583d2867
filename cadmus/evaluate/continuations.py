"""Texts that may continue a prefix of a completion to a right one (:mod:`cadmus.evaluate.prefix_values`)."""

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from cadmus import isa
from cadmus.config import OPERATORS, Dataset
from cadmus.evaluate.criteria import EXPRESSION, NUMERAL, copies, is_expression
from cadmus.evaluate.posterior import behavior_of
from cadmus.model.induction import computes
from cadmus.programs import Programs, join, stack
from cadmus.templates.answers import number_text
from cadmus.templates.complete_algorithm import functions_of, kind_of
from cadmus.vm.compiled import are_true, execute


class Asked(NamedTuple):
    """A prompt, its right completion, and the distribution of fresh inputs."""

    prompt: str
    reference: str
    dataset: Dataset


Continuations = Callable[[Asked, str], Iterable[str]]
"""Returns texts that may follow a prefix of a completion, of which the grade decides."""
_WRITTEN_NUMBER = re.compile(rf"({NUMERAL})((?:[0-9]:)?)(?=[b=Y])")
_LONGEST_SEARCH = 6
"""Most instructions that continue an expression: the first one has at most seven in the templates."""
_IN_BODIES = "".join(sorted(isa.BY_SYMBOL.keys() - {isa.END, isa.DROP, "\\", ";"}))


def respelled(asked: Asked, prefix: str) -> Iterable[str]:
    """Return the ends of the reference, with its numbers in any spelling."""
    return _ends(asked.reference)


@lru_cache(maxsize=1 << 12)
def _ends(reference: str) -> list[str]:
    """Return the ends of all spellings of an answer, those after a number in the shortest one."""
    ends: set[str] = set()
    rest, stop = "", len(reference)
    for match in reversed([*_WRITTEN_NUMBER.finditer(reference)]):
        rest = reference[match.end() : stop] + rest
        # An element without a decoration may say so.
        decorations = [match[2]] if match[2] else ["", "0:"]
        spellings = [spelling + label for spelling in _spellings(match[1]) for label in decorations]
        ends.update(spelling[start:] + rest for spelling in spellings for start in range(len(spelling)))
        rest = min(spellings, key=len) + rest
        stop = match.start()
    rest = reference[:stop] + rest
    return sorted(ends.union(rest[start:] for start in range(len(rest) + 1)), key=len)


def _spellings(numeral: str) -> list[str]:
    """Return spellings of a number whose ends are the shortest ends of all its spellings.

    A spelling may begin with any number of zeros, or of nines after ``Z``: -1 is also -10 + 9.

    >>> _spellings("5")
    ['5', '0t*t*5+', 'Zt*9+t*5+~']
    """
    value = int(execute(Programs.from_strings([numeral])).values[0, 0])
    shortest = "Z" if value == -1 else number_text(value)
    return [
        shortest,
        "0t*" + _digits(abs(value), 0) + ("~" if value <= 0 else ""),
        *(["0t*"] if value == 0 else ["Zt*9+" + _digits(-abs(value), -1) + ("~" if value > 0 else "")]),
    ]


def _digits(value: int, first: int) -> str:
    """Return Horner's rule from a number that precedes the digits of a value."""
    text = ""
    while value != first:
        value, digit = divmod(value, 10)
        text = "t*" + (f"{digit}+" if digit else "") + text
    return text


def equal_expression(asked: Asked, prefix: str) -> Iterable[str]:
    """Return the shortest end of an expression that has the value of the prompt and does not copy it."""
    depth = _depth(prefix)
    if depth is None or copies(prefix, asked.prompt):
        return []
    room = min(len(asked.prompt) - len(prefix), _LONGEST_SEARCH)
    for length in range(room + 1):
        for end in _that_make_true(asked.prompt + prefix, join(_ends_of_expressions(depth, length), b"=")):
            if not copies(prefix + end[:-1], asked.prompt):
                return [end]
    return []


def _depth(prefix: str) -> int | None:
    """Return how many values the beginning of an expression leaves, None if no expression begins so."""
    if prefix and not EXPRESSION.fullmatch(prefix + "="):
        return None
    depth = 0
    for instruction in map(isa.BY_SYMBOL.__getitem__, prefix):
        if depth < instruction.inputs:
            return None
        depth += instruction.outputs - instruction.inputs
    return depth


@cache
def _ends_of_expressions(depth: int, length: int) -> Programs:
    """Return the literals and operators that turn ``depth`` values into one, ``length`` instructions each."""
    if not length or depth > length + 1:
        return Programs.from_strings([""] if depth == 1 and not length else [])
    symbols = dict.fromkeys("0123456789tZ", depth + 1)
    symbols |= {"~": depth} if depth else {}
    symbols |= dict.fromkeys(OPERATORS, depth - 1) if depth > 1 else {}
    return stack(
        [join(symbol.encode(), _ends_of_expressions(left, length - 1)) for symbol, left in symbols.items()]
    )


def definition(asked: Asked, prefix: str) -> Iterable[str]:
    """Return short ends of a definition with which the comparison in the prompt holds."""
    opened = prefix.lstrip(";")
    if ";" in opened or opened[:1] not in ("", "\\"):
        return []
    opening = "" if opened else "\\"
    room = len(isa.split_definitions(asked.prompt)[0]) - 1 - len(opened.replace("\\", ""))
    ends = _ends_of_bodies()
    short = ends.take(ends.lengths <= room)
    return [opening + end for end in _that_make_true(asked.prompt + prefix + opening, short)]


def repair(asked: Asked, prefix: str) -> Iterable[str]:
    """Return up to two instructions that make the program true."""
    return [] if isa.DROP in prefix else _that_make_true(asked.prompt + prefix, _words("\\;" + _IN_BODIES))


@cache
def _ends_of_bodies() -> Programs:
    """Return all ends of two instructions and arithmetic of three, without those that ignore arguments."""
    ends = stack([_words(_IN_BODIES), _ends_of_expressions(1, 3)])
    constant = [any(is_expression(end[start:]) for start in range(len(end))) for end in ends.to_strings()]
    return ends.take(~np.array(constant))


@cache
def _words(symbols: str) -> Programs:
    """Return all texts of up to two symbols."""
    words = (product(symbols, repeat=length) for length in range(3))
    return Programs.from_strings(map("".join, chain.from_iterable(words)))


def _that_make_true(program: str, ends: Programs) -> list[str]:
    return ends.take(are_true(join(program.encode(), ends))).to_strings()


def function(asked: Asked, prefix: str) -> Iterable[str]:
    """Return the ends of definitions of the grammar that compute what the reference does."""
    opened, kind = prefix.lstrip(";"), kind_of(asked.prompt)
    functions = functions_of(kind)
    rows = functions.beginning(opened)
    spelled = functions.spelled[rows]
    computed = behavior_of(kind, asked.dataset.model_dump_json())[spelled]
    right = np.flatnonzero(computed == computes(asked.prompt, [asked.reference], asked.dataset))
    # The shortest of each function, because a program has a maximum length.
    texts = [(functions.spellings[rows.start + row], spelled[row]) for row in right]
    texts.sort(key=lambda pair: -len(pair[0]))
    return [text.removeprefix(opened) for text in {function: text for text, function in texts}.values()]
