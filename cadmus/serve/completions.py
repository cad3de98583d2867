"""OpenAI's completions and chat API for a model: requests, decoding, responses.

A token is an instruction. The model continues the prompt or, of a chat, the text of its last message.
"""

import asyncio
import json
import reprlib
import secrets
import time
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cadmus import isa
from cadmus.config import LONGEST_PROGRAM
from cadmus.errors import InputError
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from cadmus.serve.server import ApiError, application, body_of

MAX_CHOICES = 1024
"""Maximum number of completions per request, over all its prompts."""
MAX_LOGPROBS = 1 << 18
"""Maximum number of log-probabilities per response, 6 MB of JSON."""
UNUSED = {"metadata", "parallel_tool_calls", "service_tier", "store", "stream_options", "tool_choice", "user"}
"""Fields of the API that have no effect here, whatever their value."""


class Asked(BaseModel):
    """The fields of completions and chats that have an effect.

    Others are refused, unless their value has no effect either, such as null, 0 or an empty list.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    model: str
    prompt: str | list[Any] = ""
    messages: list[dict[str, Any]] = []
    max_tokens: int | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=0)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1, le=128)
    best_of: int | None = None
    logprobs: int | None = Field(None, ge=0, le=isa.VOCABULARY_SIZE)
    echo: bool = False
    stream: bool = False
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Field(max_length=4),
        BeforeValidator(lambda stop: [stop] if isinstance(stop, str) else stop),
    ] = []
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def _with_effect(cls, values: Any) -> Any:
        def has_effect(name: str, value: Any) -> bool:
            if name in cls.model_fields:
                return value is not None and value is not False
            return bool(value) and name not in UNUSED

        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if has_effect(name, value)}


def completion_server(model: Cadmus, name: str, hosts: Iterable[str] = ()) -> Starlette:
    """Return the server of a model, which requests must call ``name``; ``hosts`` as in ``application``."""
    turn = asyncio.Lock()
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "cadmus"}

    def check_name(asked: str) -> None:
        if asked != name:
            message = f"{reprlib.repr(asked)} is not served; use {name!r}"
            raise ApiError(message, "model", 404, "model_not_found")

    async def answer(request: Request, asked: Asked, given: Any, max_tokens: int) -> dict[str, Any]:
        check_name(asked.model)
        distinct = _read_prompts(given, asked, model.max_length)
        prompts = [prompt for prompt in distinct for _ in range(asked.n)]
        async with turn:
            if await request.is_disconnected():
                raise ClientDisconnect
            completions = await run_in_threadpool(_decode, model, asked, prompts, max_tokens)
            choices, used = await run_in_threadpool(_choices, model, asked, prompts, completions)
        prompted = sum(map(len, distinct))
        usage = {"prompt_tokens": prompted, "completion_tokens": used, "total_tokens": prompted + used}
        return {"created": int(time.time()), "model": name, "choices": choices, "usage": usage}

    async def complete(request: Request) -> Response:
        asked = _parse(await body_of(request))
        if asked.best_of not in (None, asked.n):
            raise ApiError(f"must equal n, got {asked.best_of}", "best_of")
        max_tokens = 16 if asked.max_tokens is None else asked.max_tokens
        answered = await answer(request, asked, asked.prompt, max_tokens)
        return _response(asked, "cmpl", "text_completion", answered)

    async def chat(request: Request) -> Response:
        asked = _parse(await body_of(request))
        if asked.logprobs is not None or asked.echo:
            raise ApiError("not supported in chats; leave it out", "echo" if asked.echo else "logprobs")
        limits = (asked.max_completion_tokens, asked.max_tokens, LONGEST_PROGRAM + 1)
        max_tokens = next(limit for limit in limits if limit is not None)
        answered = await answer(request, asked, _last_text(asked.messages), max_tokens)
        for choice in answered["choices"]:
            text = choice.pop("text")
            choice["delta" if asked.stream else "message"] = {"role": "assistant", "content": text}
        return _response(asked, "chatcmpl", "chat.completion" + ".chunk" * asked.stream, answered)

    def show_model(request: Request) -> Response:
        check_name(request.path_params["model"])
        return JSONResponse(card)

    routes = [
        Route("/health", lambda request: JSONResponse({"status": "ok"})),
        Route("/v1/models", lambda request: JSONResponse({"object": "list", "data": [card]})),
        Route("/v1/models/{model:path}", show_model),
        Route("/v1/completions", complete, methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
    ]
    return application(routes, hosts)


def _parse(body: bytes) -> Asked:
    try:
        return Asked.model_validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
    if not problem["loc"]:
        raise ApiError(f"the body: {problem['msg']}")
    name = reprlib.repr(problem["loc"][0]).strip("'")
    if problem["type"] == "extra_forbidden":
        raise ApiError("not supported; leave it out", name)
    message = problem["msg"].replace("Input should be", "must be")
    raise ApiError(f"{message}, got {reprlib.repr(problem['input'])}", name)


def _response(asked: Asked, prefix: str, kind: str, answered: dict[str, Any]) -> Response:
    """Return the answer as JSON or, of a stream, in one event: it takes milliseconds to decode."""
    named = {"id": f"{prefix}-{secrets.token_hex(16)}", "object": kind, **answered}
    events = f"data: {json.dumps(named)}\n\ndata: [DONE]\n\n"
    return Response(events, media_type="text/event-stream") if asked.stream else JSONResponse(named)


def _read_prompts(given: str | list[Any], asked: Asked, max_length: int) -> list[str]:
    """Return the prompts of a request as programs, which may have their end."""
    if isinstance(given, str) or all(type(token) is int for token in given):
        given = [given]
    choices = len(given) * asked.n
    if choices > MAX_CHOICES:
        raise ApiError(f"prompts times n are {choices:,}; at most {MAX_CHOICES:,} per request", "prompt")
    values = choices * (max_length + 1) * (1 + (asked.logprobs or 0))
    if values > MAX_LOGPROBS:
        counted = f"completions times {max_length + 1} tokens times (logprobs + 1)"
        raise ApiError(f"{counted} are {values:,}; at most {MAX_LOGPROBS:,} per request", "logprobs")
    return [_read_prompt(prompt, max_length) for prompt in given]


def _read_prompt(given: Any, max_length: int) -> str:
    if isinstance(given, list) and all(type(token) is int for token in given):
        if not set(given) <= set(range(isa.VOCABULARY_SIZE)):
            raise ApiError(f"token ids are 0 to {isa.VOCABULARY_SIZE - 1}", "prompt")
        given = "".join(isa.INSTRUCTIONS[token].symbol for token in given)
    if not isinstance(given, str):
        raise ApiError(f"must be text, token ids, or a list of either, got {reprlib.repr(given)}", "prompt")
    try:
        instructions = isa.check_prefix(given.removesuffix(isa.END))
    except InputError as error:
        raise ApiError(str(error), "prompt") from None
    if len(instructions) > max_length:
        message = f"has {len(instructions)} instructions, a program at most {max_length}"
        raise ApiError(message, "prompt", code="context_length_exceeded")
    return given


def _last_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last message, which must be the user's."""
    last = messages[-1] if messages else {}
    content = last.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        content = None if None in parts else "".join(map(str, parts))
    if last.get("role") != "user" or not isinstance(content, str):
        raise ApiError("the last one must be text of the user; it is the prompt", "messages")
    return content


def _decode(model: Cadmus, asked: Asked, prompts: list[str], max_tokens: int) -> list[tuple[str, bool]]:
    """Return the instructions after each prompt, and whether the model ended the program after them.

    The end is one of the ``max_tokens``. After ``max_length`` instructions the model gets one more token, for
    the end; any other instruction there cuts the program off.
    """
    if max_tokens == 0:
        return [("", False)] * len(prompts)
    # Only the end follows the end.
    completions = [("", True)] * len(prompts)
    rows = [row for row, prompt in enumerate(prompts) if not prompt.endswith(isa.END)]
    unfinished = Programs.from_strings(prompts[row] for row in rows)
    longest = model.max_length
    room = np.minimum(min(max_tokens, longest), longest + 1 - unfinished.lengths)
    seed = secrets.randbits(64) if asked.seed is None else asked.seed % 2**64
    drawing: dict[str, Any] = {"temperature": asked.temperature, "top_p": asked.top_p, "seed": seed}
    decoded, ended = model.complete(unfinished, unfinished.lengths + room, **drawing)
    # The decoder checks for an end even after the last instruction that fits.
    ended &= decoded.lengths < room
    for row, instructions, end in zip(rows, decoded.to_strings(), ended.tolist(), strict=True):
        completions[row] = instructions, end
    return completions


def _choices(
    model: Cadmus, asked: Asked, prompts: list[str], completions: list[tuple[str, bool]]
) -> tuple[list[dict[str, Any]], int]:
    """Return the choices of a response, and the number of tokens decoded for them."""
    tables: list[np.ndarray] | list[None] = [None] * len(prompts)
    if asked.logprobs is not None:
        whole = zip(prompts, completions, strict=True)
        programs = Programs.from_strings(prompt.removesuffix(isa.END) + text for prompt, (text, _) in whole)
        tables = model.log_probabilities(programs)
    choices, decoded = [], 0
    for index, (prompt, (text, ended), table) in enumerate(zip(prompts, completions, tables, strict=True)):
        tokens = text + isa.END * ended
        used = len(tokens)
        # The first stop string to be complete wins; of two that are complete together, the longer.
        stops = [(place + len(stop), place) for stop in asked.stop if (place := text.find(stop)) >= 0]
        if stops:
            used, place = min(stops)
            text = tokens = text[:place]
        # The token that cuts a program off is not in its text.
        text, start = text[: max(model.max_length - len(prompt), 0)], len(prompt)
        if asked.echo:
            text, start = prompt + text, 0
        logprobs = None if table is None else _logprobs(prompt + tokens, start, table, asked.logprobs or 0)
        reason = "stop" if ended or stops else "length"
        choices.append({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason})
        decoded += used
    return choices, decoded


def _logprobs(tokens: str, start: int, table: np.ndarray, top: int) -> dict[str, list[Any]]:
    """Return the log-probabilities of ``tokens[start:]`` in OpenAI's shape, each with the ``top`` likeliest.

    ``table`` has those after each instruction, shape (instructions, 65).
    """
    order = (-table).argsort(axis=1, kind="stable")[:, :top]
    # Nothing precedes the first token.
    tops: list[dict[str, float] | None] = [None] * (start == 0)
    for place, symbol in enumerate(tokens[max(start, 1) :], max(start, 1) - 1):
        if place >= len(table):
            # Only the end follows the end.
            tops.append({symbol: 0.0})
            continue
        shown = dict.fromkeys([*order[place].tolist(), isa.TOKEN_ID[symbol]])
        tops.append({isa.INSTRUCTIONS[token].symbol: float(table[place, token]) for token in shown})
    symbols = list(tokens[start:])
    values = [top and top[symbol] for top, symbol in zip(tops, symbols, strict=True)]
    offsets = list(range(len(symbols)))
    return {"tokens": symbols, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
