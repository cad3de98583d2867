r"""The instruction set: one table that everything else reads.

A program is any sequence of the 65 one-character instructions.  The machine works on a stack of
values, and a value is one of

* an integer in [-2^31, 2^31 - 1] that carries a decoration 0-9 (0 means none),
* a sequence of at most 16 such integers,
* NAN.

Every instruction has a fixed effect: it takes the values named before the arrow (the last one is the
top of the stack) and leaves those named after it.  A missing input is NAN, and any NAN input makes all
outputs NAN, so the number of outputs of a program follows from its text alone.  0 and NAN are false,
everything else is true; a *true program* leaves at least one value, and all its values are true.

The tables in the paper: Table 2 lists 22 of the instructions with their alternate symbols; the others
are named in passing or are decisions of ours (see docs/paper-notes.md).
"""

import hashlib
import json
import re
import reprlib
from dataclasses import dataclass

from cadmus.errors import InputError

INTEGER_MIN = -(2**31)
INTEGER_MAX = 2**31 - 1
MAX_SEQUENCE_LENGTH = 16
MAX_DECORATION = 9
MAX_CALL_DEPTH = 8
"""Calls nested deeper than this give NAN."""
CALL_BUDGET = 4096
"""Instructions that one program may execute inside calls; then every call gives NAN."""


@dataclass(frozen=True)
class Instruction:
    """One row of the table.

    ``effect`` is written ``inputs → outputs``, the top of the stack last.  ``alternate`` is the symbol of
    the paper's Table 2, or None for an instruction that the table leaves out.
    """

    symbol: str
    name: str
    group: str
    effect: str
    meaning: str
    alternate: str | None = None

    @property
    def inputs(self) -> int:
        """Number of values taken from the stack."""
        return len(self.effect.split("→")[0].split())

    @property
    def outputs(self) -> int:
        """Number of values left on the stack."""
        return len(self.effect.split("→")[1].split())


def _table() -> tuple[Instruction, ...]:
    rows: list[Instruction] = []

    def group(name: str, *instructions: tuple[str, ...]) -> None:
        rows.extend(Instruction(symbol, title, name, *rest) for symbol, title, *rest in instructions)

    group("end", (".", "end", "→", "ends the program", "."))
    group(
        "literals",
        ("0", "zero", "→ 0", "the integer 0", "-"),
        ("1", "one", "→ 1", "the integer 1", "["),
        ("2", "two", "→ 2", "the integer 2", "_"),
        ("3", "three", "→ 3", "the integer 3", "+"),
        ("4", "four", "→ 4", "the integer 4", "!"),
        ("5", "five", "→ 5", "the integer 5", "#"),
        ("6", "six", "→ 6", "the integer 6", "9"),
        ("7", "seven", "→ 7", "the integer 7", "1"),
        ("8", "eight", "→ 8", "the integer 8", "7"),
        ("9", "nine", "→ 9", "the integer 9", "^"),
        ("t", "ten", "→ 10", "the integer 10"),
        ("Z", "minus one", "→ -1", "the integer -1"),
        ("u", "empty", "→ s", "the empty sequence"),
    )
    group(
        "arithmetic",
        ("+", "add", "a b → c", "a + b", "*"),
        ("-", "subtract", "a b → c", "a - b", "/"),
        ("*", "multiply", "a b → c", "a · b", "%"),
        ("/", "divide", "a b → c", "a / b rounded down; NAN when b is 0", ")"),
        ("%", "modulo", "a b → c", "a - b · (a / b rounded down); NAN when b is 0", "}"),
        ("x", "maximum", "a b → c", "the larger of a and b", "L"),
        ("n", "minimum", "a b → c", "the smaller of a and b", "b"),
    )
    group(
        "comparison and logic",
        ("<", "less", "a b → c", "1 if a < b else 0", "?"),
        (">", "greater", "a b → c", "1 if a > b else 0", "$"),
        ("=", "equal", "a b → c", "1 if a = b else 0", "~"),
        ("&", "and", "a b → c", "1 if a and b are both true, else 0"),
        ("|", "or", "a b → c", "1 if a or b is true, else 0"),
    )
    group(
        "unary",
        ("!", "not", "a → b", "0 if a is true, else 1", "&"),
        ("?", "truth", "a → b", "1 if a is true, else 0"),
        ("'", "successor", "a → b", "a + 1"),
        ("B", "halve", "a → b", "a / 2 rounded down"),
        ("~", "negate", "a → b", "-a"),
        ("a", "absolute", "a → b", "the absolute value of a"),
        ("e", "even", "a → b", "1 if a is even, else 0"),
    )
    group(
        "stack",
        ("E", "duplicate", "a → a a", "two copies of a"),
        ("_", "drop", "a →", "nothing"),
        ("s", "swap", "a b → b a", "the two in the other order"),
        ("o", "over", "a b → a b a", "a copy of the second value on top"),
        ("r", "rotate", "a b c → b c a", "the third value on top"),
        ("i", "choose", "c a b → d", "a if c is true, else b"),
    )
    group(
        "definitions",
        ("\\", "define", "→", "opens the next subroutine; inside a definition it does nothing"),
        (";", "end definition", "→", "closes the definition; outside of one it does nothing"),
    )
    group(
        "calls",
        ("f", "call 0", "a → b", "subroutine 0 of a"),
        ("g", "call 1", "a → b", "subroutine 1 of a"),
        ("h", "call 2", "a → b", "subroutine 2 of a"),
        ("F", "call 0 with two", "a b → c", "subroutine 0 of a and b"),
        ("G", "call 1 with two", "a b → c", "subroutine 1 of a and b"),
        (
            "R",
            "recur",
            "a c → b",
            "the current subroutine of a if c is true (at the top level NAN), else a",
        ),
    )
    group(
        "higher order",
        ("m", "map", "s → z", "subroutine 0 of each element, each result an integer"),
        ("w", "filter", "s → z", "the elements of which subroutine 0 is true"),
        ("l", "fold", "s a → b", "subroutine 0 of a and each element in turn, the result being the next a"),
    )
    group(
        "sequences",
        ("b", "append", "s a → z", "s with the integer a behind it"),
        ("c", "concatenate", "s z → q", "s followed by z"),
        ("@", "index", "s k → a", "element k of s, from 0; a negative k counts from the end"),
        ("L", "length", "s → a", "the number of elements"),
        ("$", "sum", "s → a", "the sum of the elements"),
        ("X", "largest", "s → a", "the largest element, the first of equals; NAN when empty"),
        ("N", "smallest", "s → a", "the smallest element, the first of equals; NAN when empty"),
        ("A", "all", "s → a", "1 if all elements are nonzero, else 0"),
        ("S", "sort", "s → z", "the elements in ascending order, equals in the order they had"),
        ("V", "reverse", "s → z", "the elements from last to first"),
        ("K", "keep", "s z → q", "the elements of s where the sequence z, as long as s, is nonzero"),
        ("I", "range", "k → s", "the sequence 0, 1 … k - 1"),
        ("Y", "identical", "a b → c", "1 if a and b are the same value, decorations included, else 0"),
    )
    group(
        "decorations",
        (":", "decorate", "a k → b", "a with the decoration k, 0 ≤ k ≤ 9"),
        ('"', "decoration", "a → b", "the decoration of a"),
    )
    return tuple(rows)


INSTRUCTIONS: tuple[Instruction, ...] = _table()
"""All 65 instructions; the position in this table is the token id."""

BY_SYMBOL: dict[str, Instruction] = {row.symbol: row for row in INSTRUCTIONS}
TOKEN_ID: dict[str, int] = {row.symbol: index for index, row in enumerate(INSTRUCTIONS)}
VOCABULARY_SIZE = len(INSTRUCTIONS)
END = "."
END_ID = TOKEN_ID[END]

LIMITS: dict[str, int] = {
    "integer_min": INTEGER_MIN,
    "integer_max": INTEGER_MAX,
    "max_sequence_length": MAX_SEQUENCE_LENGTH,
    "max_decoration": MAX_DECORATION,
    "max_call_depth": MAX_CALL_DEPTH,
    "call_budget": CALL_BUDGET,
}
"""The limits of the machine; part of the instruction set and stored with every dataset."""


def digest() -> str:
    """Sixteen hexadecimal digits that change when a symbol, a meaning, an effect or a limit changes."""
    table = [[row.symbol, row.name, row.effect, row.meaning] for row in INSTRUCTIONS]
    text = json.dumps([table, LIMITS], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_program(program: str) -> str:
    """Return ``program`` if every character of it is an instruction.

    Raises:
        InputError: naming the first unknown symbol and its position, counted from 1.
    """
    if not BY_SYMBOL.keys() >= set(program):
        place, symbol = next((i, symbol) for i, symbol in enumerate(program) if symbol not in BY_SYMBOL)
        raise InputError(
            f"unknown symbol {symbol!r} at position {place + 1} of the program {reprlib.repr(program)}; "
            "`cadmus isa` lists the 65 instructions"
        )
    return program


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if a model can go on with it: instructions, one at least, and no end.

    Raises:
        InputError: saying what it is instead.
    """
    if not prefix:
        raise InputError("the prefix is empty; a model goes on from one instruction at least")
    check_program(prefix)
    if END in prefix:
        raise InputError(
            f"the prefix {reprlib.repr(prefix)} has its end {END} at position "
            f"{prefix.index(END) + 1}; give what stands before it"
        )
    return prefix


_DEFINITION = re.compile(r"\\(?P<body>[^;]*);?|;")
"""A definition, which an end may close as well, or a stray `;`."""


def split_definitions(program: str) -> tuple[str, list[str]]:
    r"""Return the top level of ``program`` and the bodies of its subroutines, in order.

    Reading stops at the first ``.``.  ``\`` opens a definition and ``;`` closes it; neither is part of
    what is returned, wherever it stands.

    >>> split_definitions("9f\\41-*;27=.")
    ('9f27=', ['41-*'])
    """
    top, bodies = places(program)
    return "".join(program[place] for place in top), ["".join(program[k] for k in body) for body in bodies]


def places(program: str) -> tuple[list[int], list[list[int]]]:
    r"""Where, from 0, the instructions stand that :func:`split_definitions` returns.

    >>> places("9f\\41-*;27=.")
    ([0, 1, 8, 9, 10], [[3, 4, 5, 6]])
    """
    program = program.partition(END)[0]
    top: list[int] = []
    bodies = []
    start = 0
    for match in _DEFINITION.finditer(program):
        top += range(start, match.start())
        start = match.end()
        if match["body"] is not None:
            bodies.append([place for place in range(*match.span("body")) if program[place] != "\\"])
    return [*top, *range(start, len(program))], bodies
