"""The prompt for a large language model, written from the instruction table, and the parser of its answer.

The comparison uses the 22 instructions of the paper's Table 2, which gives each an alternate symbol. Prompts
in normal and in alternate symbols have the same text and differ in the symbols alone.
"""

from cadmus import isa
from cadmus.errors import InputError, suggest
from cadmus.llm import ModelOutputError

SUBSET = tuple(row for row in isa.INSTRUCTIONS if row.alternate)
"""The 22 instructions of the paper's Table 2."""
SYMBOLS: dict[str, dict[str, str]] = {
    "normal": {row.symbol: row.symbol for row in SUBSET},
    "alternate": {row.symbol: str(row.alternate) for row in SUBSET},
}
"""The symbol of each instruction, in each kind of symbols."""
ALPHABETS = ("program", *SYMBOLS)
"""Forms of a question: the program alone, or the prompt of a language model in either kind of symbols."""
COMPARISONS = ("basic_math", "equality_comparator", "less_greater")
"""Questions whose programs consist of the 22 instructions, and whose answer is a comparator."""
COMPARATORS = "<>="
EXAMPLES = ("34+7=", "52-4<", "93/2>")
"""True programs, one per comparator, that show the form of an answer and the order of operands."""

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
    """Write a program of the 22 instructions in ``normal`` or ``alternate`` symbols.

    >>> translate("34+7=", "alternate")
    '+!*1~'
    """
    return "".join(SYMBOLS[symbols][symbol] for symbol in program)


def prompt(program: str, symbols: str) -> str:
    """Return the question for the comparator that completes a program.

    Args:
        program: the instructions before the comparator, in normal symbols.
        symbols: the symbols of the prompt, ``normal`` or ``alternate``.
    """
    written = SYMBOLS[symbols]
    rows = [
        ("symbol", "stack", "meaning"),
        *((written[row.symbol], row.effect, row.meaning) for row in SUBSET),
    ]
    width = max(len(stack) for _, stack, _ in rows)
    examples = (
        f"Program: {translate(example[:-1], symbols)}\nAnswer: {translate(example[-1], symbols)}"
        for example in EXAMPLES
    )
    *others, last = (written[symbol] for symbol in COMPARATORS)
    return _TEMPLATE.format(
        table="\n".join(f"{symbol:<6}  {stack:<{width}}  {meaning}" for symbol, stack, meaning in rows),
        low=isa.INTEGER_MIN,
        high=isa.INTEGER_MAX,
        comparators=f"{' '.join(others)} and {last}",
        examples="\n\n".join(examples),
        program=translate(program, symbols),
    )


def read_answer(text: str, symbols: str) -> str:
    """Return the comparator, in normal symbols, that an answer consists of apart from white space.

    Raises:
        ModelOutputError: the answer is anything else.
    """
    answer = text.strip()
    for comparator in COMPARATORS:
        if answer == SYMBOLS[symbols][comparator]:
            return comparator
    raise ModelOutputError(f"{answer!r} is not one of {translate(COMPARATORS, symbols)}")


def question_text(program: str, question: str, alphabet: str) -> str:
    """Return the text that asks a model to continue a program.

    Args:
        program: the prompt of a task.
        question: the question of the task.
        alphabet: ``program`` for the program alone, as models of Cadmus take it; ``normal`` or ``alternate``
            for the prompt of a language model in these symbols.

    Raises:
        InputError: no such alphabet, or the question has no prompt in these symbols.
    """
    if alphabet not in ALPHABETS:
        raise InputError(f"no alphabet {alphabet!r}; {suggest(alphabet, ALPHABETS)}")
    if alphabet == "program":
        return program
    if question not in COMPARISONS:
        raise InputError(
            f"{question}: has no prompt in {alphabet} symbols; ask {', '.join(COMPARISONS)} or use the "
            "alphabet program"
        )
    return prompt(program, alphabet)


def answer_text(completion: str, alphabet: str) -> str:
    """Return the answer to :func:`question_text` that :func:`completion_in` reads as ``completion``."""
    return completion if alphabet == "program" else translate(completion, alphabet)


def completion_in(text: str, alphabet: str) -> str:
    """Return the completion, in normal symbols, in an answer to :func:`question_text`.

    White space around it is ignored. An answer in other symbols gives an empty completion, which solves none
    of these questions.
    """
    if alphabet == "program":
        return text.strip()
    try:
        return read_answer(text, alphabet)
    except ModelOutputError:
        return ""


def document() -> str:
    """Return ``docs/llm-prompts.md``: an example of the prompt in both kinds of symbols."""
    parts = [
        "# The prompts\n",
        "The prompt for one program, in normal and in alternate symbols (the paper's Table 2). "
        "`cadmus llm prompts` writes this page from the instruction table. The program comes last, so that a "
        "server can cache the text before it.\n",
        "An answer must be one of the three symbols; only white space may surround it. [llm.md](llm.md) "
        "describes grading.\n",
    ]
    for symbols in SYMBOLS:
        question = prompt("62*4+54*4-", symbols)
        parts.append(f"## {symbols.capitalize()} symbols\n\n```text\n{question}\n```\n")
    return "\n".join(parts)
