"""Completions of prompts: decoding in one batch, log-probabilities and OpenAI's response shape."""

import secrets
import time
from collections.abc import Iterator
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from cadmus import isa
from cadmus.model.inference import Cadmus, greedy
from cadmus.model.sampling import Sampler
from cadmus.programs import Programs
from cadmus.serve.batcher import Batcher
from cadmus.serve.protocol import Request, check_model, read_prompts


class Completion(NamedTuple):
    """The instructions after a prompt, and whether the model ended the program after them."""

    instructions: str
    ended: bool


def complete(
    model: Cadmus, batcher: Batcher, name: str, max_length: int, request: Request, abandoned: Event
) -> dict[str, Any]:
    """Answer a request.

    Args:
        model: the model.
        batcher: decodes with it.
        name: the name that requests must use for it.
        max_length: maximum number of instructions in a program.
        request: the request.
        abandoned: set if the client has left.

    Returns:
        The response in OpenAI's shape.

    Raises:
        ApiError: the request names another model, or has a prompt that cannot be completed.
        ClientDisconnect: the client has left.
    """
    check_model(request.model, name)
    distinct = read_prompts(request, max_length)
    prompts = [prompt for prompt in distinct for _ in range(request.n)]
    completions = _decode(batcher, prompts, max_length, request, abandoned)
    tables = _log_probabilities(model, prompts, completions, request)
    choices, completion_tokens = [], 0
    for index, row in enumerate(zip(prompts, completions, tables, strict=True)):
        choice, tokens = _choice(request, *row, max_length)
        choices.append({"index": index, **choice})
        completion_tokens += tokens
    prompt_tokens = sum(map(len, distinct))
    return {
        "id": f"cmpl-{secrets.token_hex(16)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": name,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _decode(
    batcher: Batcher, prompts: list[str], max_length: int, request: Request, abandoned: Event
) -> list[Completion]:
    """Complete each prompt with at most ``max_tokens`` tokens, the end included.

    After ``max_length`` instructions the model gets one more token, for the end. Any other instruction there
    cuts the program off.
    """
    if request.max_tokens == 0:
        return [Completion("", False)] * len(prompts)
    # Only the end follows the end.
    completions = [Completion("", True)] * len(prompts)
    rows = [row for row, prompt in enumerate(prompts) if not prompt.endswith(isa.END)]
    open_prompts = Programs.from_strings(prompts[row] for row in rows)
    room = np.minimum(min(request.max_tokens, max_length), max_length + 1 - open_prompts.lengths)
    choose = greedy
    if request.temperature > 0:
        seed = secrets.randbits(64) if request.seed is None else request.seed % 2**64
        choose = Sampler(len(rows), request.temperature, seed, request.top_p)
    decoded, ended = batcher.complete(open_prompts, open_prompts.lengths + room, choose, abandoned)
    # The decoder checks for an end even after the last instruction that fits.
    ended &= decoded.lengths < room
    for row, instructions, end in zip(rows, decoded.to_strings(), ended.tolist(), strict=True):
        completions[row] = Completion(instructions, end)
    return completions


def _log_probabilities(
    model: Cadmus, prompts: list[str], completions: list[Completion], request: Request
) -> Iterator[np.ndarray | None]:
    """Yield the log-probabilities after each instruction of prompt and completion, if requested.

    Float32, shape (tokens, 65), one array per prompt; None if not requested.
    """
    if request.logprobs is None:
        yield from [None] * len(prompts)
        return
    programs = [
        prompt.removesuffix(isa.END) + completion.instructions
        for prompt, completion in zip(prompts, completions, strict=True)
    ]
    certain_end = np.full((1, isa.VOCABULARY_SIZE), -np.inf, np.float32)
    certain_end[0, isa.END_ID] = 0
    for prompt, table in zip(prompts, model.log_probabilities(Programs.from_strings(programs)), strict=True):
        yield np.concatenate([table, certain_end]) if prompt.endswith(isa.END) else table


def _choice(
    request: Request, prompt: str, completion: Completion, table: np.ndarray | None, max_length: int
) -> tuple[dict[str, Any], int]:
    """Return one choice without its index, and the number of tokens decoded for it."""
    instructions, ended = completion
    tokens = instructions + isa.END * ended
    used = len(tokens)
    # The first stop string to be complete wins; of two that are complete together, the longer.
    found = min(
        ((place + len(stop), place) for stop in request.stop if (place := instructions.find(stop)) >= 0),
        default=None,
    )
    if found:
        used, place = found
        instructions = tokens = instructions[:place]
    text, start = instructions[: max(max_length - len(prompt), 0)], len(prompt)
    if request.echo:
        text, start = prompt + text, 0
    logprobs = None if table is None else _logprobs(prompt + tokens, start, table, request.logprobs or 0)
    return {"text": text, "logprobs": logprobs, "finish_reason": "stop" if ended or found else "length"}, used


def _logprobs(tokens: str, start: int, table: np.ndarray, top: int) -> dict[str, list[Any]]:
    """Return the log-probabilities of tokens in OpenAI's shape.

    Args:
        tokens: prompt and completion. The first token has no log-probability.
        start: index of the first token to return, at which the text begins.
        table: log-probabilities after each token, shape (tokens, 65).
        top: number of most likely tokens to list with each token.
    """
    order = (-table).argsort(axis=1, kind="stable")[:, :top]
    values: list[float | None] = [None] * (start == 0)
    tops: list[dict[str, float] | None] = [None] * (start == 0)
    for place in range(max(start, 1), len(tokens)):
        row, own = table[place - 1], isa.TOKEN_ID[tokens[place]]
        likely = [token for token in order[place - 1].tolist() if row[token] > -np.inf]
        values.append(float(row[own]))
        tops.append(
            {isa.INSTRUCTIONS[token].symbol: float(row[token]) for token in dict.fromkeys([*likely, own])}
        )
    return {
        "tokens": list(tokens[start:]),
        "token_logprobs": values,
        "top_logprobs": tops,
        "text_offset": list(range(len(tokens) - start)),
    }
