"""A model behind the OpenAI API for completions (docs/serve.md)."""

import json
import reprlib
import secrets
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cadmus import isa
from cadmus.errors import CadmusError, InputError
from cadmus.model.inference import Cadmus, greedy
from cadmus.model.sampling import Sampler
from cadmus.programs import Programs

if TYPE_CHECKING:
    from starlette.applications import Starlette

MOST_BYTES = 16 << 20
"""Largest body of a request."""
MOST_CHOICES = 1024
"""Most completions that one request may ask for, over all its prompts."""
MOST_STOPS = 4
DOES_NOTHING: dict[str, Any] = {
    "suffix": "",
    "stream": False,
    "logit_bias": {},
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
"""Fields of the API that are not supported, each with the value, beside null, that asks for nothing."""


class Refusal(CadmusError):
    """A request that is not answered.

    Args:
        message: one line: what is wrong and what would be right.
        status: of HTTP.
        param: the field that is wrong.
        code: by which programs tell kinds of refusal apart.
    """

    def __init__(
        self, message: str, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


class Request(BaseModel):
    """The fields of a request for completions; what is null is as if it were left out."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    model: str
    prompt: str | list[Any]
    max_tokens: int = Field(16, ge=0)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    n: int = Field(1, ge=1, le=128)
    best_of: int | None = None
    logprobs: int | None = Field(None, ge=0, le=isa.VOCABULARY_SIZE)
    echo: bool = False
    stop: str | list[str] = []
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    user: str = ""

    @property
    def stops(self) -> list[str]:
        """The texts in front of which a completion is cut."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


class Written(NamedTuple):
    """What the model wrote behind a prompt: the instructions, and whether it wrote the end behind them."""

    instructions: str
    ended: bool


def read_request(body: bytes) -> Request:
    """The request in the body of a POST.

    Raises:
        Refusal: it is no JSON, or a field is missing, unknown, not supported or wrong.
    """
    try:
        values = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise Refusal(f"the body is no valid JSON ({reason})") from None
    if not isinstance(values, dict):
        raise Refusal("the body is a JSON object with the keys model and prompt at least")
    for key, nothing in DOES_NOTHING.items():
        if values.pop(key, None) not in (None, nothing):
            raise Refusal(f"{key}: is not supported; leave it out", param=key)
    known = Request.model_fields
    given = {key: value for key, value in values.items() if value is not None or key not in known}
    try:
        request = Request.model_validate(given)
    except ValidationError as error:
        raise _refusal(error) from None
    if request.best_of not in (None, request.n):
        raise Refusal(
            f"best_of: is {request.best_of}; only that of n, {request.n}, is supported", param="best_of"
        )
    if len(request.stops) > MOST_STOPS:
        raise Refusal(f"stop: has {len(request.stops)} texts; at most {MOST_STOPS}", param="stop")
    if "" in request.stops:
        raise Refusal("stop: a text is empty; each has one character at least", param="stop")
    return request


def completion(model: Cadmus, name: str, max_length: int, request: Request) -> dict[str, Any]:
    """The answer to a request, as OpenAI shapes it.

    Args:
        model: that is asked.
        name: that it goes by.
        max_length: most instructions of a program.
        request: what it is asked.

    Raises:
        Refusal: another model is meant, or a prompt is no beginning of a program, too long or one too many.
    """
    _check_name(request.model, name)
    prompts = _prompts(request, max_length)
    asked = [prompt for prompt in prompts for _ in range(request.n)]
    written = _write(model, asked, max_length, request)
    choices, tokens = [], 0
    for index, (prompt, answer, log_probabilities) in enumerate(
        zip(asked, written, _log_probabilities(model, asked, written, request), strict=True)
    ):
        choice, used = _choice(request, prompt, answer, log_probabilities, max_length)
        choices.append({"index": index, **choice})
        tokens += used
    prompt_tokens = sum(map(len, prompts))
    return {
        "id": f"cmpl-{secrets.token_hex(16)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": name,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": prompt_tokens + tokens,
        },
    }


def application(model: Cadmus, name: str, max_length: int) -> "Starlette":
    """The server of a model.

    Args:
        model: that answers.
        name: that requests call it by.
        max_length: most instructions of a program; what the model was trained with.
    """
    from anyio import CapacityLimiter, to_thread
    from starlette import requests
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    one_at_a_time = CapacityLimiter(1)
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "cadmus"}

    def answer(body: bytes) -> Response:
        return JSONResponse(completion(model, name, max_length, read_request(body)))

    async def complete(request: requests.Request) -> Response:
        body = bytearray()
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            # All of it is read, as a client that is still sending would not see the answer.
            if size <= MOST_BYTES:
                body += chunk
        if size > MOST_BYTES:
            raise Refusal(f"the body has {size:,} bytes; at most {MOST_BYTES:,}", 413)
        return await to_thread.run_sync(answer, bytes(body), limiter=one_at_a_time)

    async def health(request: requests.Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def list_models(request: requests.Request) -> Response:
        return JSONResponse({"object": "list", "data": [card]})

    async def show_model(request: requests.Request) -> Response:
        _check_name(request.path_params["model"], name)
        return JSONResponse(card)

    def refuse(request: requests.Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return JSONResponse(_error(str(error), error.param, error.code), error.status)

    def no_route(request: requests.Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path!r}: {error.detail}; there is POST /v1/completions"
        return JSONResponse(_error(message), error.status_code, error.headers)

    def gone(request: requests.Request, error: Exception) -> Response:
        # Nobody reads this.
        return Response(status_code=400)

    def defect(request: requests.Request, error: Exception) -> Response:
        message = "the server failed at this request; what it prints says more"
        return JSONResponse(_error(message, kind="server_error"), 500)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", list_models),
            Route("/v1/models/{model:path}", show_model),
            Route("/v1/completions", complete, methods=["POST"]),
        ],
        exception_handlers={
            Refusal: refuse,
            HTTPException: no_route,
            requests.ClientDisconnect: gone,
            Exception: defect,
        },
    )


def _check_name(wanted: str, name: str) -> None:
    if wanted != name:
        message = f"model: there is no {reprlib.repr(wanted)} here; {name!r} is served"
        raise Refusal(message, 404, "model", "model_not_found")


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _refusal(error: ValidationError) -> Refusal:
    """The first thing that is wrong with the fields of a request."""
    problem = error.errors(include_url=False, include_context=False)[0]
    key = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        message = f"{reprlib.repr(key)}: no such key; known are {', '.join(Request.model_fields)}"
    elif problem["type"] == "missing":
        message = f"{key}: is missing"
    elif key == "prompt":
        message = "prompt: should be a text, a list of token ids, or a list of texts or of such lists"
    elif key == "stop":
        message = f"stop: should be a text or a list of at most {MOST_STOPS} texts"
    else:
        expected = problem["msg"][0].lower() + problem["msg"][1:]
        message = f"{key}: {expected}, not {reprlib.repr(problem['input'])}"
    return Refusal(message, param=key)


def _prompts(request: Request, max_length: int) -> list[str]:
    """The prompts of a request as programs, of which some may have their end."""
    given = request.prompt
    items = [given] if isinstance(given, str) or all(type(item) is int for item in given) else given
    if len(items) * request.n > MOST_CHOICES:
        raise Refusal(
            f"prompt: {len(items):,} prompts and n {request.n} are {len(items) * request.n:,} completions; "
            f"at most {MOST_CHOICES:,} in one request",
            param="prompt",
        )
    places = (f"prompt[{index}]" if items is given else "prompt" for index in range(len(items)))
    return [_prompt(item, place, max_length) for item, place in zip(items, places, strict=True)]


def _prompt(given: Any, place: str, max_length: int) -> str:
    def refusal(message: str, code: str | None = None) -> Refusal:
        return Refusal(f"{place}: {message}", param="prompt", code=code)

    if isinstance(given, list) and all(type(item) is int for item in given):
        wrong = next((token for token in given if not 0 <= token < isa.VOCABULARY_SIZE), None)
        if wrong is not None:
            highest = isa.VOCABULARY_SIZE - 1
            raise refusal(f"there is no token id {reprlib.repr(wrong)}; they go from 0 to {highest}")
        given = "".join(isa.INSTRUCTIONS[token].symbol for token in given)
    if not isinstance(given, str):
        raise refusal(f"should be a text or a list of token ids, not {reprlib.repr(given)}")
    try:
        program = isa.check_program(given)
    except InputError as error:
        raise refusal(str(error)) from None
    instructions = program.removesuffix(isa.END)
    if not instructions:
        raise refusal("is empty; a model goes on from one instruction at least")
    if isa.END in instructions:
        position = instructions.index(isa.END) + 1
        raise refusal(f"the end {isa.END} at position {position} is followed by more; it may only come last")
    if len(instructions) > max_length:
        message = f"has {len(instructions)} instructions, a program at most {max_length}"
        raise refusal(message, "context_length_exceeded")
    return program


def _write(model: Cadmus, prompts: list[str], max_length: int, request: Request) -> list[Written]:
    """What the model writes behind each prompt: at most ``max_tokens`` tokens, the end being one.

    A prompt and what follows have at most ``max_length`` tokens and one more for the end; if the model writes
    anything else there, it is what cuts the program off.
    """
    if request.max_tokens == 0:
        return [Written("", False)] * len(prompts)
    # Behind the end comes nothing but the end again.
    written = [Written("", True)] * len(prompts)
    rows = [row for row, prompt in enumerate(prompts) if not prompt.endswith(isa.END)]
    open_prompts = Programs.from_strings(prompts[row] for row in rows)
    room = np.minimum(min(request.max_tokens, max_length), max_length + 1 - open_prompts.lengths)
    choose = greedy
    if request.temperature > 0:
        seed = secrets.randbits(64) if request.seed is None else request.seed % 2**64
        choose = Sampler(len(rows), request.temperature, request.top_p, seed)
    completions, ended = model.complete(open_prompts, open_prompts.lengths + room, choose)
    # The decoder looks for an end behind the last instruction that there is room for.
    ended &= completions.lengths < room
    for row, instructions, end in zip(rows, completions.to_strings(), ended.tolist(), strict=True):
        written[row] = Written(instructions, end)
    return written


def _log_probabilities(
    model: Cadmus, prompts: list[str], written: list[Written], request: Request
) -> Iterator[np.ndarray | None]:
    """Of what follows each instruction of prompt and completion: float32, shape (tokens, 65), or None if
    nobody asked."""
    if request.logprobs is None:
        yield from [None] * len(prompts)
        return
    programs = [
        prompt.removesuffix(isa.END) + answer.instructions
        for prompt, answer in zip(prompts, written, strict=True)
    ]
    certain = np.full((1, isa.VOCABULARY_SIZE), -np.inf, np.float32)
    certain[0, isa.END_ID] = 0
    for prompt, found in zip(prompts, model.log_probabilities(Programs.from_strings(programs)), strict=True):
        yield np.concatenate([found, certain]) if prompt.endswith(isa.END) else found


def _choice(
    request: Request, prompt: str, written: Written, log_probabilities: np.ndarray | None, max_length: int
) -> tuple[dict[str, Any], int]:
    """One choice of an answer without its index, and the tokens that it took."""
    instructions, ended = written
    tokens = instructions + isa.END * ended
    taken = len(tokens)
    # A text is complete when its last character is written; of two that are at once, the longer is cut off.
    found = min(
        ((place + len(stop), place) for stop in request.stops if (place := instructions.find(stop)) >= 0),
        default=None,
    )
    if found:
        taken, place = found
        instructions = tokens = instructions[:place]
    text = instructions[: max(max_length - len(prompt), 0)]
    start = len(prompt)
    if request.echo:
        text, start = prompt + text, 0
    return {
        "text": text,
        "logprobs": None
        if log_probabilities is None
        else _logprobs(prompt + tokens, start, log_probabilities, request.logprobs or 0),
        "finish_reason": "stop" if ended or found else "length",
    }, taken


def _logprobs(tokens: str, start: int, log_probabilities: np.ndarray, top: int) -> dict[str, list[Any]]:
    """The log-probabilities of the tokens from ``start`` on, as OpenAI shapes them.

    Args:
        tokens: of prompt and completion; nothing is known of the first.
        start: from which on they are wanted, and with which the text begins.
        log_probabilities: of what follows each token: shape (tokens, 65).
        top: how many of the likeliest are named beside each token.
    """
    shown: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    order = (-log_probabilities).argsort(axis=1, kind="stable")[:, :top]
    for place in range(start, len(tokens)):
        shown["tokens"].append(tokens[place])
        shown["text_offset"].append(place - start)
        if place == 0:
            shown["token_logprobs"].append(None)
            shown["top_logprobs"].append(None)
            continue
        row = log_probabilities[place - 1]
        own = isa.TOKEN_ID[tokens[place]]
        named = [token for token in order[place - 1].tolist() if row[token] > -np.inf]
        shown["token_logprobs"].append(float(row[own]))
        shown["top_logprobs"].append(
            {isa.INSTRUCTIONS[token].symbol: float(row[token]) for token in dict.fromkeys([*named, own])}
        )
    return shown


def _error(
    message: str, param: str | None = None, code: str | None = None, kind: str = "invalid_request_error"
) -> dict[str, dict[str, str | None]]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
