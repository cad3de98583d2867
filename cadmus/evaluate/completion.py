"""Accuracy on each sub-problem, graded by execution (the paper's Table 3).

A held-out program is cut at its prompt length, the model completes it greedily, and these are
counted:

* ``verified``: the whole program is true under the machine, the model ended it, and it did not get there
  by dropping (``_``) anything;
* ``verified_equality``, only for equality programs completed from after the first expression, where nothing
  asks for an equality yet and another comparison is just as true: verified, and the last instruction is
  ``=``;
* ``exact``: the completion is the held-out program's own;
* ``next_token``: the most probable instruction at the prompt's end (the end ``.`` included) is the
  held-out program's.

A bad completion is counted, never raised.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from tqdm import tqdm

from cadmus import isa
from cadmus.config import TEMPLATES
from cadmus.errors import Defect
from cadmus.evaluate.numbers import SOLVE, with_accuracy
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.programs import Programs, join
from cadmus.vm.compiled import verdicts

DROP = "_"


def accuracy(model: Any, table: Any, max_length: int, limit: int | None = None) -> pl.DataFrame:
    """Complete the programs of ``table`` and grade what comes.

    Args:
        model: has ``complete(prompts, max_length)`` and ``next_logits(prompts)`` as
            :class:`cadmus.model.Cadmus` does.
        table: held-out programs as :func:`cadmus.dataset.reader.read_split` gives them.
        max_length: longest program, prompt and completion together, in instructions.
        limit: most programs of each template, the first ones; all when None.

    Returns:
        For each template, and for equality from after the first expression, one row a metric:
        template, metric, programs, correct, accuracy, low, high, and the counts of completions that did
        not end (``not_ended``) and that drop something (``uses_drop``), the same for every metric.
    """
    rows = []
    tasks = list(_tasks(table, limit))
    for name, programs, prompt_length in tqdm(tasks, desc="complete", delay=2, disable=None):
        rows += _grade(model, name, programs, prompt_length, max_length)
    return with_accuracy(pl.DataFrame(rows)).select(
        "template", "metric", "programs", "correct", "accuracy", "low", "high", "not_ended", "uses_drop"
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


def _grade(
    model: Any, name: str, programs: Programs, prompt_length: np.ndarray, max_length: int
) -> list[dict[str, Any]]:
    prompts = programs.prefixes(prompt_length)
    completions, ended = model.complete(prompts, max_length)
    whole = join(prompts, completions)
    texts = completions.to_strings()
    uses_drop = np.array([DROP in text for text in texts])
    verified = verdicts(whole) & ended & ~uses_drop
    own = np.array([a == b for a, b in zip(whole.to_strings(), programs.to_strings(), strict=True)])
    correct = {
        "verified": verified,
        "exact": own & ended,
        "next_token": model.next_logits(prompts).argmax(axis=1) == _next_token(programs, prompt_length),
    }
    if name == SOLVE:
        correct["verified_equality"] = verified & np.array([text.endswith("=") for text in texts])
    counts = {"not_ended": int(np.sum(~ended)), "uses_drop": int(uses_drop.sum())}
    return [
        {"template": name, "metric": metric, "programs": len(programs), "correct": int(hits.sum()), **counts}
        for metric, hits in correct.items()
    ]


def _next_token(programs: Programs, prompt_length: np.ndarray) -> np.ndarray:
    """Token id that follows each prompt: int64, shape (n,)."""
    following = np.full(len(programs), ord(isa.END), np.uint8)
    inside = prompt_length < programs.lengths
    following[inside] = programs.data[(programs.offsets[:-1] + prompt_length)[inside]]
    return TOKEN_OF_BYTE[following]
