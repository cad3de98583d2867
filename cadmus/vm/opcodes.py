"""The instruction table as the compiled VM reads it, derived from :mod:`cadmus.isa`.

The opcode of an instruction is the ASCII code of its symbol.
"""

import numpy as np

from cadmus import isa
from cadmus.errors import Defect
from cadmus.vm.values import NUMBER, SEQUENCE

# Names that the compiled VM knows, by which it finds an instruction that has no case there.
_named = {"drop"}


def _opcodes(*names: str) -> list[int]:
    _named.update(names)
    return [ord(isa.BY_NAME[name].symbol) for name in names]


END, DEFINE, END_DEFINITION = _opcodes("end", "define", "end definition")
ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO = _opcodes("add", "subtract", "multiply", "divide", "modulo")
MAXIMUM, MINIMUM = _opcodes("maximum", "minimum")
LESS, GREATER, EQUAL, AND, OR = _opcodes("less", "greater", "equal", "and", "or")
NOT, TRUTH, SUCCESSOR, HALVE, NEGATE = _opcodes("not", "truth", "successor", "halve", "negate")
ABSOLUTE, EVEN = _opcodes("absolute", "even")
DECORATE, GET_DECORATION = _opcodes("decorate", "decoration")
DUPLICATE, OVER, SWAP, ROTATE, CHOOSE = _opcodes("duplicate", "over", "swap", "rotate", "choose")
RECUR, MAP, FILTER, FOLD = _opcodes("recur", "map", "filter", "fold")
APPEND, CONCATENATE, INDEX, LENGTH, SUM = _opcodes("append", "concatenate", "index", "length", "sum")
LARGEST, SMALLEST, ALL, SORT, REVERSE = _opcodes("largest", "smallest", "all", "sort", "reverse")
KEEP, RANGE, IDENTICAL = _opcodes("keep", "range", "identical")

# Families of instructions that the kernel executes in the same way.
UNKNOWN, STRUCTURE, PUSH, ELEMENTWISE, STACK, SEQUENCE_OPERATION, CALL = range(7)
_FAMILY_OF_GROUP = {
    **dict.fromkeys(("end", "definitions"), STRUCTURE),
    "literals": PUSH,
    **dict.fromkeys(("arithmetic", "comparison and logic", "unary", "decorations"), ELEMENTWISE),
    "stack": STACK,
    **dict.fromkeys(("calls", "higher order"), CALL),
    "sequences": SEQUENCE_OPERATION,
}

TOP_LEVEL = 0
"""Row of the top level among the bodies of a program; subroutine k has row k + 1."""

# One entry per opcode.
FAMILY, INPUTS, OUTPUTS = np.zeros((3, 256), np.int64)
# The kind of value that a literal pushes, and its integer.
PUSHED_KIND, PUSHED = np.zeros((2, 256), np.int64)
BODY = np.zeros(256, np.int64)
"""Row of the body that a calling instruction calls; recursion calls its own."""
for _row in isa.INSTRUCTIONS:
    _opcode = ord(_row.symbol)
    if _row.group not in ("literals", "calls") and _row.name not in _named:
        raise Defect(
            f"{_row.name}: no case of the compiled VM; add one to vm/opcodes.py and vm/operations.py"
        )
    FAMILY[_opcode] = _FAMILY_OF_GROUP[_row.group]
    INPUTS[_opcode], OUTPUTS[_opcode] = _row.inputs, _row.outputs
    if _row.literal is not None:
        PUSHED_KIND[_opcode], PUSHED[_opcode] = NUMBER, _row.literal
    elif _row.group == "literals":
        PUSHED_KIND[_opcode] = SEQUENCE
    if _row.group == "higher order":
        BODY[_opcode] = 1
    elif _row.group == "calls" and _row.name != "recur":
        BODY[_opcode] = 1 + int(_row.name.split()[1])
BODIES = 1 + int(BODY.max())
"""Bodies that a program can use; the instructions reach no further subroutine."""
