r"""Answers by rules on the text of a prompt: they count, copy and reorder instructions, and execute none.

A rule does what a reader could who knows the arity of each instruction and laws of arithmetic, but no result:
``82-`` is ``93-``, and the function in ``8f2=`` may be the smaller of its argument and 2. The best rule of a
question is a baseline.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from cadmus import isa
from cadmus.evaluate.criteria import copies

Rule = Callable[[str], str]
"""From a prompt to a completion."""
Tree = str | tuple["Tree", "Tree", str]
"""An expression: a literal, or two expressions and an operator."""

_LITERALS = "Z0123456789t"
"""In ascending order."""
_CALLS = ("fF", "gG", "h", "")
"""Calls of each subroutine."""
_MOST = 400  # expressions tried for a prompt; their number grows exponentially with the laws applied


def rules(question: str) -> list[Rule]:
    """Return the rules of a question, which may be none."""
    by_question: dict[str, list[Rule]] = {
        "equality": [_equal],
        "random": [partial(_repair, joining=joining, last=last) for joining, last in _REPAIRS],
        "subroutines_definition": [partial(_defined, body=body) for body in _BODIES],
    }
    return by_question.get(question, [])


_REPAIRS = [
    *(("", last) for last in ("!", "'", "''")),
    *((joining, last) for joining in "+-x" for last in ("", "''", "E*1+", "!", "99*+")),
    *((f"{change}s{change}*", "") for change in ("''", "5-")),
]
"""Instructions that join two of the values that the prompt leaves, and those at last."""
_BODIES = ("A-V+", "VO", "Vx", "Vn", "nVx", "OVO", "V*", "V+", "A-", "", *"%-x")
"""Definitions: A is the argument in the prompt, V the value, and O ``x`` or ``n``."""


def _repair(prompt: str, joining: str, last: str) -> str:
    """Repair a prompt by the number of values that it leaves; a single one is false."""
    depth = 0
    for symbol in isa.split_definitions(prompt)[0]:
        row = isa.BY_SYMBOL[symbol]
        depth = max(depth - row.inputs, 0) + row.outputs  # a missing input is NAN and takes no value
    is_open = "\\" in prompt[prompt.rfind(";") + 1 :]
    answer = {0: "1", 1: "!"}.get(depth, joining * (depth - 1) + last)
    return f";{answer}" if is_open else answer


def _defined(prompt: str, body: str) -> str:
    """Define a function with the ``body``, for a call of A with the value V; A may call what is defined."""
    top, bodies = isa.split_definitions(prompt)
    missing = _CALLS[len(bodies)]
    # Another definition may call it, so the call is written out where that one is called.
    for number, other in enumerate(bodies):
        if set(missing) & set(other):
            for call in _CALLS[number]:
                top = top.replace(call, other, 1)
    index = next((k for k, symbol in enumerate(top) if symbol in missing), None)
    if index is None:
        return rf"\{body.replace('A', '').replace('V', '')};"
    value = _last_expression(top[:-1])
    between = top[index + 1 : len(top) - 1 - len(value)]
    argument = _last_expression(top[:index])
    below = top[: index - len(argument)]
    if between == "+" and below:
        value = f"{value}{below}-"  # if x + f = V, then f = V - x
    elif between == "-" and below:
        value = f"{below}{value}-"
    # A guess at the order of the two, which decides between the larger and the smaller.
    of_value, of_argument = (max(map(_LITERALS.find, text), default=0) for text in (value, argument))
    text = {"A": argument, "V": value, "O": "x" if of_value > of_argument else "n"}
    return "\\" + "".join(text.get(symbol, symbol) for symbol in body) + ";"


def _last_expression(text: str) -> str:
    """Return the shortest end of some instructions that leaves one value and takes none."""
    needed = 1
    for index in range(len(text) - 1, -1, -1):
        row = isa.BY_SYMBOL[text[index]]
        needed += row.inputs - row.outputs
        if needed == 0:
            return text[index:]
    return text


def _equal(prompt: str) -> str:
    """Write an expression of the same value by laws of arithmetic, and not a copy."""
    different = (text for text in islice(_rewritings(prompt), _MOST) if not copies(text, prompt))
    return next(different, prompt) + "="


def _rewritings(text: str) -> Iterator[str]:
    """Yield expressions of the same value, those of the fewest steps first."""
    known = {text}  # or laws that undo each other would never end
    latest = [_parsed(text)]
    while latest:
        rewritten = []
        for tree in latest:
            for changed in _changed(tree):
                if (written := _written(changed)) not in known and len(written) <= len(text):
                    known.add(written)
                    rewritten.append(changed)
                    yield written
        latest = rewritten


def _parsed(text: str) -> Tree:
    stack: list[Tree] = []
    for symbol in text:
        if symbol in _LITERALS:
            stack.append(symbol)
        else:
            right, left = stack.pop(), stack.pop()
            stack.append((left, right, symbol))
    return stack[0]


def _written(tree: Tree) -> str:
    return tree if isinstance(tree, str) else _written(tree[0]) + _written(tree[1]) + tree[2]


def _changed(tree: Tree) -> Iterator[Tree]:
    """Yield the trees that one law makes of a tree."""
    if isinstance(tree, str):
        return
    left, right, operator = tree
    yield from ((changed, right, operator) for changed in _changed(left))
    yield from ((left, changed, operator) for changed in _changed(right))
    yield from _at_the_root(left, right, operator)


def _at_the_root(left: Tree, right: Tree, operator: str) -> Iterator[Tree]:
    if isinstance(left, str) and isinstance(right, str):
        yield from _of_literals(left, right, operator)
    if operator in "+*xn":
        yield right, left, operator
    if left == right and operator in "xn":
        yield left
    if left == right and operator == "-":
        yield "0"
    if right == {"+": "0", "-": "0", "*": "1", "/": "1"}.get(operator):
        yield left
    if (right == "0" and operator == "*") or (right == "1" and operator == "%"):
        yield "0"
        if isinstance(left, str):
            yield from ((literal, right, operator) for literal in _LITERALS)
    if isinstance(left, tuple):
        a, b, inner = left
        if inner == operator and operator in "+*xn":
            yield (a, right, operator), b, operator
            yield a, (b, right, operator), operator
        if operator in "+-" and inner in "+-":
            # a ± b ± c is a ± c ± b.
            yield (a, right, operator), b, inner
            same = "+" if operator == inner else "-"
            yield a, (b, right, same), inner
    if isinstance(right, tuple) and operator in "+-":
        a, b, inner = right
        if inner in "+-":
            yield (left, a, operator), b, "+" if operator == inner else "-"


def _of_literals(left: str, right: str, operator: str) -> Iterator[Tree]:
    """Yield what follows from the order of two literals and the literals next to them."""
    a, b = (_LITERALS.index(literal) - 1 for literal in (left, right))  # the first literal is -1
    if operator in "+-":
        for change in (1, -1, 2, -2, 3, -3, 4, -4, 5, -5):
            other = b - change if operator == "+" else b + change
            if -1 <= a + change <= 10 and -1 <= other <= 10:
                yield _LITERALS[a + change + 1], _LITERALS[other + 1], operator
    if operator in "xn":
        larger = operator == "x"
        value = max(a, b) if larger else min(a, b)
        yield _LITERALS[value + 1]
        for other in range(-1, value + 1) if larger else range(value, 11):
            yield _LITERALS[value + 1], _LITERALS[other + 1], operator
    if operator in "/%" and 0 <= a < b:  # not of -1, as division rounds down
        yield left if operator == "%" else "0"
