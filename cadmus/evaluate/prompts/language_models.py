"""The prompt for a large language model, written from the instruction table, and the parser of its answer.

The comparison uses the 22 instructions of the paper's Table 2, which gives each an alternate symbol. Prompts
in all alphabets have the same text and differ in the symbols alone, so each alphabet separates one reason for
which a symbol may be hard: ``alternate`` has familiar symbols with other meanings, ``permuted`` has the same
symbols as ``normal`` with each other's meanings, and ``letters`` mean nothing.
"""

import re
import string
from collections.abc import Sequence

from cadmus import isa
from cadmus.errors import InputError, suggest
from cadmus.tables import plain

SUBSET = tuple(row for row in isa.INSTRUCTIONS if row.alternate)
"""The 22 instructions of the paper's Table 2."""
_NORMAL = "".join(row.symbol for row in SUBSET)
_MOVED = _NORMAL.replace(isa.END, "")
SYMBOLS: dict[str, dict[str, str]] = {
    name: dict(zip(_NORMAL, symbols, strict=True))
    for name, symbols in {
        "normal": _NORMAL,
        "alternate": "".join(str(row.alternate) for row in SUBSET),
        "letters": _NORMAL[0] + string.ascii_lowercase[: len(_MOVED)],
        # No instruction keeps its symbol, and no comparator has that of another.
        "permuted": _NORMAL[0] + _MOVED[9:] + _MOVED[:9],
    }.items()
}
"""The symbol of each instruction, in each alphabet."""
ALPHABETS = ("program", *SYMBOLS)
"""Forms of a question: the program alone, or the prompt of a language model in one of the alphabets."""
COMPARISONS = ("basic_math", "equality_comparator", "less_greater")
"""Questions whose programs consist of the 22 instructions, and whose answer is a comparator."""
COMPARATORS = "<>="
UNREADABLE = "no readable answer"
"""A completion that cannot be a program."""
EXAMPLES = ("34+7=", "52-4<", "93/2>")
"""True programs, one per comparator, that show the form of an answer and the order of operands."""

_LABEL = "(?:the )?(?:final )?answer(?: is)?"
FORMS = tuple(
    re.compile(pattern, re.DOTALL | re.IGNORECASE)
    for pattern in (
        rf"(?:\*\*{_LABEL}:\*\*|\*\*{_LABEL}\*\*:?|{_LABEL}(?::|\s))(.+)",
        r"```(?:\w*\n)?(.+)```",
        r"(`|\*\*|__|\*|_|\"|')(.+)\1",
        r"\\boxed\{(.+)\}",
        r"\\(?:text|mathrm|mathtt|texttt)\{(.+)\}",
        r"\$\$([^$]+)\$\$",
        r"\$(.+)\$",
        r"\\\((.+)\\\)",
        r"\\\[(.+)\\\]",
    )
)
"""Forms in which language models write an answer; the last group is the answer."""
LONGEST_ANSWER = 200
"""Characters of a readable answer, with its form."""

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


def translate(program: str, alphabet: str) -> str:
    """Write a program of the 22 instructions in the symbols of an alphabet.

    >>> translate("34+7=", "alternate")
    '+!*1~'
    """
    return "".join(SYMBOLS[alphabet][symbol] for symbol in program)


def prompt(program: str, alphabet: str, examples: Sequence[str] = EXAMPLES) -> str:
    """Return the question for the comparator that completes a program, after examples of true programs.

    All are given in normal symbols.
    """
    written = SYMBOLS[alphabet]
    rows = [(written[row.symbol], row.effect, row.meaning) for row in SUBSET]
    shown = (translate(example, alphabet) for example in examples)
    *others, last = (written[symbol] for symbol in COMPARATORS)
    return _TEMPLATE.format(
        table=plain(("symbol", "stack", "meaning"), rows),
        low=isa.INTEGER_MIN,
        high=isa.INTEGER_MAX,
        comparators=f"{' '.join(others)} and {last}",
        examples="\n\n".join(f"Program: {text[:-1]}\nAnswer: {text[-1]}" for text in shown),
        program=translate(program, alphabet),
    )


def read_answer(text: str, alphabet: str) -> str | None:
    r"""Return the comparator, in normal symbols, that an answer consists of, apart from its form.

    White space and :data:`FORMS` around it do not count, one in another: ``**Answer:** `>` ``. What is left
    must be the symbol alone, as some alphabets have symbols that also format.

    >>> [read_answer(text, "normal") for text in (r"\boxed{>}", "**Answer:** `=`", "a > b")]
    ['>', '=', None]
    """
    written = {SYMBOLS[alphabet][comparator]: comparator for comparator in COMPARATORS}
    text = text.strip()
    # A model that repeats itself writes thousands of marks.
    while len(text) <= LONGEST_ANSWER:
        if text in written:
            return written[text]
        found = (form.fullmatch(text) for form in FORMS)
        match = next(filter(None, found), None)
        # Each form makes a text shorter.
        if match is None:
            return None
        text = match[match.lastindex or 0].strip()
    return None


def question_text(program: str, question: str, alphabet: str) -> str:
    """Return the text that asks a model to continue the prompt of a task.

    The alphabet ``program`` gives the prompt alone, as models of Cadmus take it.
    """
    if alphabet not in ALPHABETS:
        raise InputError(f"no alphabet {alphabet!r}; {suggest(alphabet, ALPHABETS)}")
    if alphabet == "program":
        return program
    if question not in COMPARISONS:
        fix = f"ask {', '.join(COMPARISONS)} or use the alphabet program"
        raise InputError(f"{question}: has no prompt in {alphabet} symbols; {fix}")
    return prompt(program, alphabet)


def answer_text(completion: str, alphabet: str) -> str:
    """Return the answer to :func:`question_text` that :func:`completion_in` reads as ``completion``."""
    return completion if alphabet == "program" else translate(completion, alphabet)


def completion_in(text: object, alphabet: str) -> str | None:
    """Return the completion, in normal symbols, in an answer to :func:`question_text`.

    White space around it is ignored. Another answer gives :data:`UNREADABLE`, which verifies nothing. What is
    not text, as libraries may give for a failed or truncated answer, is None, no completion.
    """
    if not isinstance(text, str):
        return None
    return text.strip() if alphabet == "program" else read_answer(text, alphabet) or UNREADABLE
