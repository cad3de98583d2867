"""Grading of completions by execution, as in the paper's Table 3.

The model completes each program greedily from its prompt. A completion has these metrics:

* ``verified``: the full program is true, the model ended it, and the completion does not drop (``_``) a
  value;
* ``verified_equality``: verified, and the last instruction is ``=``. Only for equality programs completed
  from after the first expression, where nothing in the prompt asks for an equality;
* ``exact``: the completion is that of the original program;
* ``next_token``: the most likely token after the prompt, which may be the end ``.``, is the original one.

No completion raises an error, however bad.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.common.progress import progress
from cadmus.config import TEMPLATES
from cadmus.errors import Defect
from cadmus.evaluate.results import SOLVE
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.programs import Programs, join
from cadmus.vm.compiled import verdicts

DROP = "_"


def complete(model: Any, table: Any, max_length: int, limit: int | None = None) -> pl.DataFrame:
    """Complete the programs of ``table`` and grade the completions.

    Args:
        model: has ``complete(prompts, max_length)`` and ``next_logits(prompts)`` like
            :class:`cadmus.model.Cadmus`.
        table: programs, as :func:`cadmus.dataset.reader.read_split` returns them.
        max_length: maximum length of prompt and completion together, in instructions.
        limit: maximum number of programs per template, taken from the first; None for all.

    Returns:
        One row per completion: template (``equality_solve`` for equality from after the first expression),
        program (the original, without its end), prompt_length, completion (without its end), ended,
        uses_drop, and the metrics above; verified_equality is null for other templates.
    """
    tasks = list(_tasks(table, limit))
    return pl.concat(
        _grade(model, name, programs, prompt_length, max_length)
        for name, programs, prompt_length in progress("complete", tasks)
    )


def second_expression(program: str) -> int:
    """Return the position at which the second expression of an equality program starts.

    It is the shortest run of instructions before the comparator that leaves exactly one value and pops none
    from below. The effects of the instructions determine it without running the program.

    >>> second_expression("941-*55*2+=")
    5

    Raises:
        Defect: the program does not end in an expression and a comparator.
    """
    end = len(program) - 1
    for start in range(end - 1, 0, -1):
        if _leaves_one_value(program[start:end]):
            return start
    raise Defect(f"{program!r} does not end in an expression and a comparator")


def _leaves_one_value(instructions: str) -> bool:
    depth = 0
    for symbol in instructions:
        instruction = isa.BY_SYMBOL[symbol]
        if depth < instruction.inputs:
            return False
        depth += instruction.outputs - instruction.inputs
    return depth == 1


def _tasks(table: Any, limit: int | None) -> Iterator[tuple[str, Programs, np.ndarray]]:
    """Yield a name, the programs and their prompt lengths for each template, and for ``equality_solve``."""
    template = np.asarray(table.template)
    for name in TEMPLATES:
        rows = np.flatnonzero(template == name)[:limit]
        if not len(rows):
            continue
        programs = table.programs.take(rows)
        yield name, programs, np.asarray(table.prompt_length)[rows].astype(np.int64)
        if name == "equality":
            starts = [second_expression(program) for program in programs.to_strings()]
            yield SOLVE, programs, np.array(starts, np.int64)


def _grade(
    model: Any, name: str, programs: Programs, prompt_length: np.ndarray, max_length: int
) -> pl.DataFrame:
    prompts = programs.prefixes(prompt_length)
    completions, ended = model.complete(prompts, max_length)
    full = join(prompts, completions)
    texts, originals = completions.to_strings(), programs.to_strings()
    uses_drop = np.array([DROP in text for text in texts])
    verified = verdicts(full) & ended & ~uses_drop
    to_equality = [bool(hit) and text.endswith("=") for hit, text in zip(verified, texts, strict=True)]
    same = np.array([a == b for a, b in zip(full.to_strings(), originals, strict=True)])
    return pl.DataFrame(
        {
            "template": [name] * len(originals),
            "program": originals,
            "prompt_length": prompt_length,
            "completion": texts,
            "ended": ended,
            "uses_drop": uses_drop,
            "verified": verified,
            "verified_equality": pl.Series(
                to_equality if name == SOLVE else [None] * len(originals), dtype=pl.Boolean
            ),
            "exact": same & ended,
            "next_token": model.next_logits(prompts).argmax(axis=1) == _next_token(programs, prompt_length),
        }
    )


def _next_token(programs: Programs, prompt_length: np.ndarray) -> np.ndarray:
    """Return the token id after each prompt: int64, shape (n,)."""
    following = np.full(len(programs), ord(isa.END), np.uint8)
    inside = prompt_length < programs.lengths
    following[inside] = programs.data[(programs.offsets[:-1] + prompt_length)[inside]]
    return TOKEN_OF_BYTE[following]
