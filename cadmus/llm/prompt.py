"""What a large language model is asked, written from the instruction table, and how its answer is read.

The comparison uses the 22 instructions of the paper's Table 2.  Each has a second, alternate symbol there,
and a prompt in alternate symbols is that in normal ones with every symbol exchanged: the text around them is
the same, so that nothing but the symbols tells the two apart.
"""

from cadmus import isa
from cadmus.errors import ModelOutputError

SUBSET = tuple(row for row in isa.INSTRUCTIONS if row.alternate)
"""The 22 instructions of the paper's Table 2."""
SYMBOLS: dict[str, dict[str, str]] = {
    "normal": {row.symbol: row.symbol for row in SUBSET},
    "alternate": {row.symbol: str(row.alternate) for row in SUBSET},
}
"""How each of them is written in the two kinds of symbols."""
COMPARATORS = "<>="
EXAMPLES = ("34+7=", "52-4<", "93/2>")
"""True programs that show the form of an answer, one for each comparator, and which operand comes first."""

_TEMPLATE = """\
A program is a sequence of one-character instructions for a machine with a stack of integers, which is \
empty at first. The instructions are executed from left to right. Each one takes its inputs off the \
stack and leaves its outputs on it. These are all instructions:

{table}

The column "stack" has the inputs before the arrow and the outputs after it, the top of the stack last. \
The column "meaning" is written in ordinary arithmetic. In a program, a symbol means what this table \
says and nothing else, whatever it may mean elsewhere.

An input that is missing is NAN. An instruction with an input that is NAN leaves NAN, and so does one \
with a result outside of {low} to {high}. A value is true unless it is 0 or NAN. A program is true when \
it leaves at least one value on the stack and all of them are true.

The last instruction of a program is missing. It is one of {comparators}, and exactly one of them makes \
the program true. Answer with this one symbol and with nothing else.

Examples:
{examples}

Program: {program}
Answer:"""


def translate(program: str, symbols: str) -> str:
    """A program of the 22 instructions written in ``normal`` or ``alternate`` symbols.

    >>> translate("34+7=", "alternate")
    '+!*1~'
    """
    written = SYMBOLS[symbols]
    return "".join(written[symbol] for symbol in program)


def prompt(program: str, symbols: str) -> str:
    """The question for the comparator that completes ``program``.

    Args:
        program: what stands before the comparator, in normal symbols.
        symbols: ``normal`` or ``alternate``, which the prompt is written in.
    """
    written = SYMBOLS[symbols]
    rows = [
        ("symbol", "stack", "meaning"),
        *((written[row.symbol], row.effect, row.meaning) for row in SUBSET),
    ]
    width = max(len(stack) for _, stack, _ in rows)
    table = "\n".join(f"{symbol:<6}  {stack:<{width}}  {meaning}" for symbol, stack, meaning in rows)
    examples = "\n".join(
        f"Program: {translate(example[:-1], symbols)}\nAnswer: {translate(example[-1], symbols)}\n"
        for example in EXAMPLES
    )
    *others, last = (written[symbol] for symbol in COMPARATORS)
    return _TEMPLATE.format(
        table=table,
        low=isa.INTEGER_MIN,
        high=isa.INTEGER_MAX,
        comparators=f"{' '.join(others)} and {last}",
        examples=examples.rstrip("\n"),
        program=translate(program, symbols),
    )


def read_answer(text: str, symbols: str) -> str:
    """The comparator, in normal symbols, that an answer consists of; white space around it does not matter.

    Raises:
        ModelOutputError: it is anything else.
    """
    given = text.strip()
    for comparator in COMPARATORS:
        if given == SYMBOLS[symbols][comparator]:
            return comparator
    raise ModelOutputError(f"{given!r} is none of {translate(COMPARATORS, symbols)}")


def document() -> str:
    """``docs/llm-prompts.md``: what the models are asked, in both kinds of symbols."""
    program = "62*4+54*4-"
    parts = [
        "# The prompts\n",
        "What a large language model is asked for one program, in normal and in alternate symbols (the "
        "paper's Table 2). Written by `cadmus llm prompts` from the instruction table; the text around the "
        "symbols is the same. The program stands at the end, so that a server can keep what is before it.\n",
        "The answer is read strictly: it is one of the three symbols, with nothing but white space around "
        "it. How it is graded is told in [llm.md](llm.md).\n",
    ]
    for symbols in SYMBOLS:
        parts.append(f"## {symbols.capitalize()} symbols\n\n```text\n{prompt(program, symbols)}\n```\n")
    return "\n".join(parts)
