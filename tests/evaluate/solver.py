"""Answers of the test server: the comparator that the prompt implies, or sometimes a wrong one."""

import hashlib

from cadmus import isa
from cadmus.vm import reference

ERRORS = 0.1
"""Fraction of wrong answers."""
_OF_MEANING = {(row.effect, row.meaning): row.symbol for row in isa.INSTRUCTIONS}


def solve(text: str) -> str:
    """Return the comparator, in the symbols of the prompt."""
    symbols, program = read_prompt(text)
    written = {meant: symbol for symbol, meant in symbols.items()}
    meant = "".join(symbols[symbol] for symbol in program)
    right = [comparator for comparator in "<>=" if reference.run(meant + comparator).true]
    assert len(right) == 1, f"{meant}: {right}"
    wrong = next(comparator for comparator in "<>=" if comparator not in right)
    return written[wrong if errs(text) else right[0]]


def errs(text: str) -> bool:
    """Return True if the answer to a prompt is wrong."""
    return hashlib.sha256(text.encode()).digest()[0] < 256 * ERRORS


def read_prompt(text: str) -> tuple[dict[str, str], str]:
    """Return the meaning of each symbol of a prompt, read from its table, and its program."""
    table = text.partition("symbol  stack")[2].partition("\n\n")[0].splitlines()[1:]
    symbols = {}
    for line in table:
        stack, meaning = line[8:15].strip(), line[17:].strip()
        symbols[line[0]] = _OF_MEANING[stack, meaning]
    program = text.rpartition("Program: ")[2].removesuffix("\nAnswer:")
    return symbols, program
