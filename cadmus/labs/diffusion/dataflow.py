"""The data flow of programs: which instructions use the values that others leave on the stack.

It follows from the text alone, as the text decides how many values each instruction takes and leaves. The
body of a definition has a stack of its own, whose first values come from a call.
"""

from cadmus import isa

_OPEN, _CLOSE = "\\", ";"
_EFFECTS = {row.symbol: (row.inputs, row.outputs) for row in isa.INSTRUCTIONS}


def dependencies(program: str) -> list[tuple[int, int]]:
    """Return the pairs of an instruction and a later one that uses a value of it, by their places.

    >>> dependencies("34+7=")
    [(0, 2), (1, 2), (2, 4), (3, 4)]
    """
    pairs: list[tuple[int, int]] = []
    stacks: list[list[int]] = [[]]
    for place, symbol in enumerate(program):
        if symbol == _OPEN and len(stacks) == 1:
            stacks.append([])
        elif symbol == _CLOSE and len(stacks) > 1:
            stacks.pop()
        stack = stacks[-1]
        inputs, outputs = _EFFECTS[symbol]
        used = stack[max(0, len(stack) - inputs) :]
        pairs += [(producer, place) for producer in dict.fromkeys(used)]
        stack[max(0, len(stack) - inputs) :] = [place] * outputs
    return pairs
