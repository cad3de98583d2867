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
UNUSED = {"metadata", "parallel_tool_calls", "service_tier", "store", "stream_options", "tool_choice", "user"}
"""Fields of the API that have no effect here, whatever their value."""


class Parameters(BaseModel):
    """The fields of completions and chats that have an effect.

    Others are refused, unless their value has no effect either, such as null, 0 or an empty list.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    model: str
    prompt: str | list[str] = ""
    messages: list[dict[str, Any]] = []
    max_tokens: int | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=0)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1, le=128)
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Field(max_length=4),
        BeforeValidator(lambda stop: [stop] if isinstance(stop, str) else stop),
    ] = []
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stream: bool = False

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

    async def answer(
        request: Request, parameters: Parameters, prompt: str | list[str], max_tokens: int
    ) -> dict[str, Any]:
        if parameters.model != name:
            message = f"{reprlib.repr(parameters.model)} is not served; use {name!r}"
            raise ApiError(message, "model", 404, "model_not_found")
        distinct = _read_prompts(prompt, parameters, model.max_length)
        prompts = [program for program in distinct for _ in range(parameters.n)]
        # A request already uses the whole device.
        async with turn:
            if await request.is_disconnected():
                raise ClientDisconnect
            completions = await run_in_threadpool(_decode, model, parameters, prompts, max_tokens)
        choices, decoded = _choices(model, parameters, prompts, completions)
        prompted = sum(map(len, distinct))
        total = prompted + decoded
        usage = {"prompt_tokens": prompted, "completion_tokens": decoded, "total_tokens": total}
        return {"created": int(time.time()), "model": name, "choices": choices, "usage": usage}

    async def complete(request: Request) -> Response:
        parameters = _parse(await body_of(request))
        # The default of OpenAI's completions; a chat has none.
        max_tokens = 16 if parameters.max_tokens is None else parameters.max_tokens
        content = await answer(request, parameters, parameters.prompt, max_tokens)
        return _response(parameters, "cmpl", "text_completion", content)

    async def chat(request: Request) -> Response:
        parameters = _parse(await body_of(request))
        limits = (parameters.max_completion_tokens, parameters.max_tokens, LONGEST_PROGRAM + 1)
        max_tokens = next(limit for limit in limits if limit is not None)
        content = await answer(request, parameters, _last_text(parameters.messages), max_tokens)
        for choice in content["choices"]:
            text = choice.pop("text")
            choice["delta" if parameters.stream else "message"] = {"role": "assistant", "content": text}
        kind = "chat.completion.chunk" if parameters.stream else "chat.completion"
        return _response(parameters, "chatcmpl", kind, content)

    routes = [
        Route("/health", lambda request: JSONResponse({"status": "ok"})),
        Route("/v1/models", lambda request: JSONResponse({"object": "list", "data": [card]})),
        Route("/v1/completions", complete, methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
    ]
    return application(routes, hosts)


def _parse(body: bytes) -> Parameters:
    try:
        return Parameters.model_validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
    if not problem["loc"]:
        raise ApiError(f"the body: {problem['msg']}")
    name = reprlib.repr(problem["loc"][0]).strip("'")
    if problem["type"] == "extra_forbidden":
        raise ApiError("not supported; leave it out", name)
    message = problem["msg"].replace("Input should be", "must be")
    raise ApiError(f"{message}, got {reprlib.repr(problem['input'])}", name)


def _response(parameters: Parameters, prefix: str, kind: str, content: dict[str, Any]) -> Response:
    """Return the content as JSON or, as a stream, in one event: clients such as verifiers only stream."""
    content = {"id": f"{prefix}-{secrets.token_hex(16)}", "object": kind, **content}
    if not parameters.stream:
        return JSONResponse(content)
    return Response(f"data: {json.dumps(content)}\n\ndata: [DONE]\n\n", media_type="text/event-stream")


def _read_prompts(prompt: str | list[str], parameters: Parameters, max_length: int) -> list[str]:
    """Return the prompts of a request as programs, which may have their end."""
    prompts = [prompt] if isinstance(prompt, str) else prompt
    choices = len(prompts) * parameters.n
    if choices > MAX_CHOICES:
        raise ApiError(f"prompts times n are {choices:,}; at most {MAX_CHOICES:,} per request", "prompt")
    return [_read_prompt(prompt, max_length) for prompt in prompts]


def _read_prompt(prompt: str, max_length: int) -> str:
    try:
        instructions = isa.check_prefix(prompt.removesuffix(isa.END))
    except InputError as error:
        raise ApiError(str(error), "prompt") from None
    if len(instructions) > max_length:
        message = f"has {len(instructions)} instructions, a program at most {max_length}"
        raise ApiError(message, "prompt", code="context_length_exceeded")
    return prompt


def _last_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last message, which must be the user's."""
    last = messages[-1] if messages else {}
    content = last.get("content")
    if last.get("role") != "user" or not isinstance(content, str):
        raise ApiError("the last one must be text of the user; it is the prompt", "messages")
    return content


def _decode(
    model: Cadmus, parameters: Parameters, prompts: list[str], max_tokens: int
) -> list[tuple[str, bool]]:
    """Return the instructions after each prompt, and whether the model ended the program after them.

    The end is one of the ``max_tokens``. After ``max_length`` instructions the model gets one more token, for
    the end; any other instruction there cuts the program off.
    """
    if max_tokens == 0:
        return [("", False)] * len(prompts)
    # Nothing but the end follows a prompt that has its end; the model completes the others.
    completions = [("", True)] * len(prompts)
    rows = [row for row, prompt in enumerate(prompts) if not prompt.endswith(isa.END)]
    unfinished = Programs.from_strings(prompts[row] for row in rows)
    longest = model.max_length
    room = np.minimum(min(max_tokens, longest), longest + 1 - unfinished.lengths)
    seed = secrets.randbits(64) if parameters.seed is None else parameters.seed % 2**64
    limits = unfinished.lengths + room
    decoded, ended = model.complete(
        unfinished, limits, temperature=parameters.temperature, top_p=parameters.top_p, seed=seed
    )
    # The decoder checks for an end even after the last instruction that fits.
    ended &= decoded.lengths < room
    for row, instructions, end in zip(rows, decoded.to_strings(), ended.tolist(), strict=True):
        completions[row] = instructions, end
    return completions


def _choices(
    model: Cadmus, parameters: Parameters, prompts: list[str], completions: list[tuple[str, bool]]
) -> tuple[list[dict[str, Any]], int]:
    """Return the choices of a response, and the number of tokens decoded for them."""
    choices, decoded = [], 0
    for index, (prompt, (text, ended)) in enumerate(zip(prompts, completions, strict=True)):
        used = len(text) + 1 if ended else len(text)
        # The first stop string to be complete wins; of two that are complete together, the longer.
        stops = [(at + len(stop), at) for stop in parameters.stop if (at := text.find(stop)) >= 0]
        if stops:
            used, length = min(stops)
            text = text[:length]
        decoded += used
        choices.append(
            {
                "index": index,
                # Without the token that cuts a program off.
                "text": text[: max(model.max_length - len(prompt), 0)],
                "logprobs": None,
                "finish_reason": "stop" if ended or stops else "length",
            }
        )
    return choices, decoded
