r"""The instruction set: one table for the VMs, the tokenizer, the prompts and the manual.

A program is a sequence of the 65 one-character instructions. The VM works on a stack of values. A value is

* an integer in [-2^31, 2^31 - 1] with a decoration 0-9 (0: none),
* a sequence of at most 16 such integers, or
* NAN.

An instruction pops its inputs and pushes its outputs, the top of the stack last. A missing input is NAN, and
a NAN input makes all outputs NAN, so the text of a program determines its number of outputs. 0 and NAN are
false, every other value is true. A *true program* has at least one output, and all its outputs are true.

The 22 instructions of the paper's Table 2 have an alternate symbol. The paper only names some of the others,
and the rest are ours (docs/paper-notes.md).
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
"""Deeper calls give NAN."""
CALL_BUDGET = 4096
"""Maximum number of instructions executed inside calls; further calls give NAN."""


@dataclass(frozen=True)
class Instruction:
    """One row of the table."""

    symbol: str
    name: str
    group: str
    effect: str
    """``inputs → outputs``, the top of the stack last."""
    meaning: str
    example: str
    """A program that uses it, for the manual."""
    alternate: str | None = None
    """The symbol in the paper's Table 2, None if the table omits the instruction."""

    @property
    def inputs(self) -> int:
        return len(self.effect.split("→")[0].split())

    @property
    def outputs(self) -> int:
        return len(self.effect.split("→")[1].split())

    @property
    def literal(self) -> int | None:
        """Integer that a literal pushes; None for the empty sequence and all other instructions."""
        value = self.effect.split()[-1]
        return None if self.group != "literals" or value == "s" else int(value)


_TABLE: dict[str, list[tuple[str, ...]]] = {
    "end": [(".", "end", "→", "ends the program", "12.3", ".")],
    "literals": [
        ("0", "zero", "→ 0", "the integer 0", "0", "-"),
        ("1", "one", "→ 1", "the integer 1", "1", "["),
        ("2", "two", "→ 2", "the integer 2", "2", "_"),
        ("3", "three", "→ 3", "the integer 3", "3", "+"),
        ("4", "four", "→ 4", "the integer 4", "4", "!"),
        ("5", "five", "→ 5", "the integer 5", "5", "#"),
        ("6", "six", "→ 6", "the integer 6", "6", "9"),
        ("7", "seven", "→ 7", "the integer 7", "7", "1"),
        ("8", "eight", "→ 8", "the integer 8", "8", "7"),
        ("9", "nine", "→ 9", "the integer 9", "9", "^"),
        ("t", "ten", "→ 10", "the integer 10", "t"),
        ("Z", "minus one", "→ -1", "the integer -1", "Z"),
        ("u", "empty", "→ s", "the empty sequence", "u"),
    ],
    "arithmetic": [
        ("+", "add", "a b → c", "a + b", "34+", "*"),
        ("-", "subtract", "a b → c", "a - b", "34-", "/"),
        ("*", "multiply", "a b → c", "a · b", "34*", "%"),
        ("/", "divide", "a b → c", "a / b rounded down; NAN when b is 0", "7~2/", ")"),
        ("%", "modulo", "a b → c", "a - b · (a / b rounded down); NAN when b is 0", "7~2%", "}"),
        ("x", "maximum", "a b → c", "the larger of a and b", "37x", "L"),
        ("n", "minimum", "a b → c", "the smaller of a and b", "37n", "b"),
    ],
    "comparison and logic": [
        ("<", "less", "a b → c", "1 if a < b else 0", "4I2<", "?"),
        (">", "greater", "a b → c", "1 if a > b else 0", "34>", "$"),
        ("=", "equal", "a b → c", "1 if a = b else 0", "34+7=", "~"),
        ("&", "and", "a b → c", "1 if a and b are both true, else 0", "30&"),
        ("|", "or", "a b → c", "1 if a or b is true, else 0", "30|"),
    ],
    "unary": [
        ("!", "not", "a → b", "0 if a is true, else 1", "34+8=!", "&"),
        ("?", "truth", "a → b", "1 if a is true, else 0", "3I?"),
        ("'", "successor", "a → b", "a + 1", "3I'"),
        ("B", "halve", "a → b", "a / 2 rounded down", "7B"),
        ("~", "negate", "a → b", "-a", "7~"),
        ("a", "absolute", "a → b", "the absolute value of a", "7~a"),
        ("e", "even", "a → b", "1 if a is even, else 0", "4Ie"),
    ],
    "stack": [
        ("E", "duplicate", "a → a a", "two copies of a", "5E"),
        ("_", "drop", "a →", "nothing", "56_"),
        ("s", "swap", "a b → b a", "the two in the other order", "56s"),
        ("o", "over", "a b → a b a", "a copy of the second value on top", "56o"),
        ("r", "rotate", "a b c → b c a", "the third value on top", "456r"),
        ("i", "choose", "c a b → d", "a if c is true, else b", "056i"),
    ],
    "definitions": [
        ("\\", "define", "→", "opens the next subroutine; inside a definition it does nothing", "\\3*;5f"),
        (";", "end definition", "→", "closes the definition; outside of one it does nothing", "5f\\3*;2"),
    ],
    "calls": [
        ("f", "call 0", "a → b", "subroutine 0 of a", "\\3*;5f"),
        ("g", "call 1", "a → b", "subroutine 1 of a", "\\3*;\\4+;5g"),
        ("h", "call 2", "a → b", "subroutine 2 of a", "\\3*;\\4+;\\E*;5h"),
        ("F", "call 0 with two", "a b → c", "subroutine 0 of a and b", "\\-;73F"),
        ("G", "call 1 with two", "a b → c", "subroutine 1 of a and b", "\\3*;\\-;73G"),
        (
            "R",
            "recur",
            "a c → b",
            "the current subroutine of a if c is true (at the top level NAN), else a",
            "\\1-ER;5f",
        ),
    ],
    "higher order": [
        ("m", "map", "s → z", "subroutine 0 of each element, each result an integer", "\\E*;4Im"),
        ("w", "filter", "s → z", "the elements of which subroutine 0 is true", "\\2%;6Iw"),
        (
            "l",
            "fold",
            "s a → b",
            "subroutine 0 of a and each element in turn, the result being the next a",
            "\\+;5I0l",
        ),
    ],
    "sequences": [
        ("b", "append", "s a → z", "s with the integer a behind it", "u7b8b"),
        ("c", "concatenate", "s z → q", "s followed by z", "2I3Ic"),
        ("@", "index", "s k → a", "element k of s, from 0; a negative k counts from the end", "5IZ@"),
        ("L", "length", "s → a", "the number of elements", "5IL"),
        ("$", "sum", "s → a", "the sum of the elements", "5I$"),
        ("X", "largest", "s → a", "the largest element, the first of equals; NAN when empty", "5IX"),
        ("N", "smallest", "s → a", "the smallest element, the first of equals; NAN when empty", "u7b4bN"),
        ("A", "all", "s → a", "1 if all elements are nonzero, else 0", "3IA"),
        ("S", "sort", "s → z", "the elements in ascending order, equals in the order they had", "u7b41:b4bS"),
        ("V", "reverse", "s → z", "the elements from last to first", "4IV"),
        (
            "K",
            "keep",
            "s z → q",
            "the elements of s where the sequence z, as long as s, is nonzero",
            "4Iu1b0b0b1bK",
        ),
        ("I", "range", "k → s", "the sequence 0, 1 … k - 1", "4I"),
        (
            "Y",
            "identical",
            "a b → c",
            "1 if a and b are the same value, decorations included, else 0",
            "442:Y",
        ),
    ],
    "decorations": [
        (":", "decorate", "a k → b", "a with the decoration k, 0 ≤ k ≤ 9", "3I2:"),
        ('"', "decoration", "a → b", "the decoration of a", '72:"'),
    ],
}
"""By group: symbol, name, effect, meaning, an example and, in the paper's Table 2, the alternate symbol."""

INSTRUCTIONS = tuple(
    Instruction(symbol, name, group, *rest) for group, rows in _TABLE.items() for symbol, name, *rest in rows
)
"""All 65 instructions; an instruction's index is its token id."""

BY_SYMBOL: dict[str, Instruction] = {row.symbol: row for row in INSTRUCTIONS}
BY_NAME: dict[str, Instruction] = {row.name: row for row in INSTRUCTIONS}
TOKEN_ID: dict[str, int] = {row.symbol: index for index, row in enumerate(INSTRUCTIONS)}
VOCABULARY_SIZE = len(INSTRUCTIONS)
END = "."
DROP = "_"
END_ID = TOKEN_ID[END]

LIMITS = {
    "integer_min": INTEGER_MIN,
    "integer_max": INTEGER_MAX,
    "max_sequence_length": MAX_SEQUENCE_LENGTH,
    "max_decoration": MAX_DECORATION,
    "max_call_depth": MAX_CALL_DEPTH,
    "call_budget": CALL_BUDGET,
}
"""Limits of the VM, included in :func:`digest` and stored with every dataset."""


def digest() -> str:
    """Return a 16-digit hex hash of all symbols, names, effects, meanings and limits."""
    table = [[row.symbol, row.name, row.effect, row.meaning] for row in INSTRUCTIONS]
    text = json.dumps([table, LIMITS], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_program(program: str) -> str:
    """Return ``program`` if every character is an instruction."""
    if not BY_SYMBOL.keys() >= set(program):
        position, symbol = next((i, symbol) for i, symbol in enumerate(program, 1) if symbol not in BY_SYMBOL)
        raise InputError(
            f"unknown symbol {symbol!r} at position {position} of the program {reprlib.repr(program)}; "
            f"`cadmus isa` lists the {VOCABULARY_SIZE} instructions"
        )
    return program


def without_spaces(program: str) -> str:
    """Return a program as someone typed it without its spaces and tabs, which no instruction is."""
    return program.replace(" ", "").replace("\t", "")


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if a model can continue it: at least one instruction and no end."""
    if not prefix:
        raise InputError("the prefix is empty; give at least one instruction")
    check_program(prefix)
    if END in prefix:
        raise InputError(
            f"the prefix {reprlib.repr(prefix)} has its end {END} at position {prefix.index(END) + 1}; "
            "give only the instructions before it"
        )
    return prefix


_DEFINITION = re.compile(r"\\(?P<body>[^;]*);?|;")
"""A definition, closed or open at the end of the program, or a stray ``;``."""


def split_definitions(program: str) -> tuple[str, list[str]]:
    r"""Return the top level of ``program`` and the bodies of its subroutines, in order.

    Instructions after the first ``.`` are ignored. The delimiters ``\`` and ``;`` are omitted.

    >>> split_definitions("9f\\41-*;27=.")
    ('9f27=', ['41-*'])
    """
    top, bodies = positions(program)
    return "".join(program[i] for i in top), ["".join(program[i] for i in body) for body in bodies]


def positions(program: str) -> tuple[list[int], list[list[int]]]:
    r"""Return the positions, from 0, of the instructions that :func:`split_definitions` returns.

    >>> positions("9f\\41-*;27=.")
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
            bodies.append([i for i in range(*match.span("body")) if program[i] != "\\"])
    return [*top, *range(start, len(program))], bodies
