"""A program as the page shows it, as JSON."""

import base64
from typing import Any

import numpy as np
import torch

from cadmus import isa
from cadmus.config import LONGEST_PROGRAM
from cadmus.errors import InputError
from cadmus.explore.references import Probe, References
from cadmus.model import completing
from cadmus.model.inference import Cadmus
from cadmus.vm import reference

MAX_VALUES = 50_000
"""Maximum number of values that the stacks of all steps have together."""


def inspect(model: Cadmus, text: str, calls: bool = False, probe: Probe | None = None) -> dict[str, Any]:
    """Execute a program and read it with a model.

    Args:
        model: the model.
        text: a program, with or without its end ``.``.
        calls: also list the steps inside calls, before the instruction that calls.
        probe: also return what it reads.

    Returns:
        program (without the end), ended (True if the text had the end), true, outputs (as
        :func:`cadmus.vm.reference.plain` writes them), steps (of each executed instruction: its place from 0,
        the number of calls around it and the stack after it), read (as
        :meth:`cadmus.explore.references.Probe.read` returns it, or None) and lens, the probability that each
        instruction comes next at each layer (0 is the embedding, the last is the model's output), shape
        (layers + 1, tokens, 65).
    """
    program = read(text)
    steps = reference.trace(program, calls=calls)
    if (count := sum(len(step.stack) for step in steps)) > MAX_VALUES:
        hint = "; leave out the steps inside calls" if calls else ""
        raise InputError(f"the stacks have {count:,} values to show; at most {MAX_VALUES:,}{hint}")
    result = reference.run(program)
    ((_, logits),) = model.layer_logits([program])
    return {
        "program": program,
        "ended": isa.END in text,
        "true": result.true,
        "outputs": [reference.plain(value) for value in result.outputs],
        "steps": [
            {
                "place": step.position,
                "depth": step.depth,
                "stack": [reference.plain(value) for value in step.stack],
            }
            for step in steps
        ],
        "read": probe and probe.read(model, program),
        "lens": packed(torch.from_numpy(logits[:, 0]).softmax(-1).numpy()),
    }


def attention(model: Cadmus, text: str, layer: int) -> dict[str, Any]:
    """Return the attention weights of a block, shape (heads, tokens, tokens).

    Args:
        model: the model.
        text: a program, with or without its end ``.``.
        layer: index of the block, from 1.
    """
    if not 1 <= layer <= model.sizes.layers:
        raise InputError(f"layer: must be 1 to {model.sizes.layers}, got {layer}")
    ((_, weights),) = model.attention([read(text)])
    return packed(weights[layer - 1, 0])


def references(fitted: References) -> dict[str, Any]:
    """Return the bigram baseline, and what is known of the probe."""
    return {
        "programs": fitted.programs,
        "bigrams": packed(fitted.bigrams),
        "layer": fitted.probe.layer,
        "supervised": fitted.probe.supervised,
        "accuracy": fitted.probe.accuracy,
        "majority": fitted.probe.majority,
    }


def complete(model: Cadmus, text: str) -> dict[str, str]:
    """Return the program with the model's completion, including the end if the model wrote it."""
    prefix = isa.check_prefix(text)
    read(text)
    (completion,) = completing.complete(model, [prefix], max(model.max_length, len(prefix)))
    return {"program": prefix + completion.written}


def read(text: str) -> str:
    """Return a text as a program without its end."""
    program = isa.check_program(text).partition(isa.END)[0]
    if not program:
        raise InputError("the program is empty; type instructions, or sample one")
    if len(program) > LONGEST_PROGRAM:
        raise InputError(f"the program has {len(program)} instructions; at most {LONGEST_PROGRAM}")
    return program


def packed(values: np.ndarray) -> dict[str, Any]:
    """Return an array as JSON: its shape, and its values as little-endian float32 in base64."""
    data = base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
    return {"shape": values.shape, "data": data}
