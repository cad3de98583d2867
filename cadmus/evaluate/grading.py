"""Completions of held-out programs, graded by execution (the paper's Table 3 and what else comes of it).

A held-out program is cut at its prompt length and the model completes it greedily.  Of every completion it is
told:

* ``verified``: the whole program is true under the machine, the model ended it, and it did not get there
  by dropping (``_``) anything;
* ``verified_equality``, only for equality programs completed from after the first expression, where nothing
  asks for an equality yet and another comparison is just as true: verified, and the last instruction is
  ``=``;
* ``exact``: the completion is the held-out program's own;
* ``next_token``: the most probable instruction at the prompt's end (the end ``.`` included) is the
  held-out program's.

A bad completion is graded, never raised.
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
    """Complete the programs of ``table`` and grade what comes.

    Args:
        model: has ``complete(prompts, max_length)`` and ``next_logits(prompts)`` as
            :class:`cadmus.model.Cadmus` does.
        table: held-out programs as :func:`cadmus.dataset.reader.read_split` gives them.
        max_length: longest program, prompt and completion together, in instructions.
        limit: most programs of each template, the first ones; all when None.

    Returns:
        One row a completion: template (``equality_solve`` for equality from after the first expression),
        program (held out, without its end), prompt_length, completion (without its end), ended, uses_drop,
        and what is said above, null where it does not apply.
    """
    tasks = list(_tasks(table, limit))
    return pl.concat(
        _graded(model, name, programs, prompt_length, max_length)
        for name, programs, prompt_length in progress("complete", tasks)
    )


def second_expression(program: str) -> int:
    """Where the second expression of an equality program starts.

    It is the shortest run of instructions before the comparator that leaves exactly one value without
    reaching below it, which the fixed effects of the instructions tell without running anything.

    >>> second_expression("941-*55*2+=")
    5

    Raises:
        Defect: the program has no such run, so it is no equality program.
    """
    end = len(program) - 1
    for start in range(end - 1, 0, -1):
        if _leaves_one_value(program[start:end]):
            return start
    raise Defect(f"{program!r} does not end in an expression and a comparator")


def _leaves_one_value(piece: str) -> bool:
    depth = 0
    for symbol in piece:
        instruction = isa.BY_SYMBOL[symbol]
        if depth < instruction.inputs:
            return False
        depth += instruction.outputs - instruction.inputs
    return depth == 1


def _tasks(table: Any, limit: int | None) -> Iterator[tuple[str, Programs, np.ndarray]]:
    """What is completed: a name, the held-out programs and where the model takes over."""
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


def _graded(
    model: Any, name: str, programs: Programs, prompt_length: np.ndarray, max_length: int
) -> pl.DataFrame:
    prompts = programs.prefixes(prompt_length)
    completions, ended = model.complete(prompts, max_length)
    whole = join(prompts, completions)
    texts, own = completions.to_strings(), programs.to_strings()
    uses_drop = np.array([DROP in text for text in texts])
    verified = verdicts(whole) & ended & ~uses_drop
    to_equality = [bool(hit) and text.endswith("=") for hit, text in zip(verified, texts, strict=True)]
    same = np.array([a == b for a, b in zip(whole.to_strings(), own, strict=True)])
    return pl.DataFrame(
        {
            "template": [name] * len(own),
            "program": own,
            "prompt_length": prompt_length,
            "completion": texts,
            "ended": ended,
            "uses_drop": uses_drop,
            "verified": verified,
            "verified_equality": pl.Series(
                to_equality if name == SOLVE else [None] * len(own), dtype=pl.Boolean
            ),
            "exact": same & ended,
            "next_token": model.next_logits(prompts).argmax(axis=1) == _next_token(programs, prompt_length),
        }
    )


def _next_token(programs: Programs, prompt_length: np.ndarray) -> np.ndarray:
    """Token id that follows each prompt: int64, shape (n,)."""
    following = np.full(len(programs), ord(isa.END), np.uint8)
    inside = prompt_length < programs.lengths
    following[inside] = programs.data[(programs.offsets[:-1] + prompt_length)[inside]]
    return TOKEN_OF_BYTE[following]
