"""What the page says of a program, as JSON."""

import base64
from typing import Any

import numpy as np
import torch

from cadmus import isa
from cadmus.config import LONGEST_PROGRAM
from cadmus.errors import InputError
from cadmus.model.inference import Cadmus
from cadmus.vm import reference


def inspect(model: Cadmus, text: str, calls: bool = False) -> dict[str, Any]:
    """A program as the machine executes it and as a model reads it.

    Args:
        model: that reads it.
        text: a program, with or without its end ``.``.
        calls: whether the steps inside calls are listed too, before the instruction that calls.

    Returns:
        program (without the end), ended (whether the end was there), true, outputs (as
        :func:`cadmus.vm.reference.plain` writes them), steps (for each executed instruction its place, from
        0, how many calls it is inside of, and the stack after it) and lens: the probabilities of every
        instruction to be the next one, by what each layer says (0 is the embedding, the last one is what the
        model says), shape (layers + 1, tokens, 65).

    Raises:
        InputError: it is no program, or too long.
    """
    program = read(text)
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
            for step in reference.trace(program, calls=calls)
        ],
        "lens": packed(torch.from_numpy(logits[:, 0]).softmax(-1).numpy()),
    }


def attention(model: Cadmus, text: str, layer: int) -> dict[str, Any]:
    """How much each token of a program attends to each: shape (heads, tokens, tokens).

    Args:
        model: that reads it.
        text: a program, with or without its end ``.``.
        layer: one of the model's blocks, from 1.

    Raises:
        InputError: it is no program, or too long, or there is no such block.
    """
    if not 1 <= layer <= model.sizes.layers:
        raise InputError(f"there is no block {layer}; the model has blocks 1 to {model.sizes.layers}")
    ((_, shares),) = model.attention([read(text)])
    return packed(shares[layer - 1, 0])


def complete(model: Cadmus, text: str) -> dict[str, str]:
    """The program with what the model writes behind it, its end included if it came.

    Raises:
        InputError: it is no program, or too long, or has its end already.
    """
    prefix = isa.check_prefix(text)
    read(text)
    continuations, ended = model.complete([prefix], max(model.max_length, len(prefix)))
    (continuation,) = continuations.to_strings()
    return {"program": prefix + continuation + isa.END * bool(ended[0])}


def read(text: str) -> str:
    """The program that a text is, without its end.

    Raises:
        InputError: it is none, or too long.
    """
    program = isa.check_program(text).partition(isa.END)[0]
    if not program:
        raise InputError("the program is empty; type instructions, or sample one")
    if len(program) > LONGEST_PROGRAM:
        raise InputError(f"the program has {len(program)} instructions; at most {LONGEST_PROGRAM}")
    return program


def packed(numbers: np.ndarray) -> dict[str, Any]:
    """An array as JSON: its shape, and its numbers as little-endian float32 in base64."""
    data = base64.b64encode(np.ascontiguousarray(numbers, "<f4").tobytes()).decode()
    return {"shape": numbers.shape, "data": data}
