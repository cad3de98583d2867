"""The HTTP server of a model: routes and error responses."""

import time
from collections.abc import Callable, Collection
from threading import Event

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cadmus.model.inference import Cadmus
from cadmus.serve.batcher import Batcher
from cadmus.serve.chat import as_chat, as_stream, read_chat
from cadmus.serve.completion import complete
from cadmus.serve.protocol import MAX_BYTES, ApiError, check_model, error_body, read_request
from cadmus.web.hosts import HostCheck
from cadmus.web.work import RETRY, Overloaded, Work

AT_ONCE = 64
"""Maximum number of requests that are decoded in one batch; others wait."""
MAX_REQUESTS = 256
"""Maximum number of requests that are read, waiting or decoded; others are refused."""


def application(model: Cadmus, name: str, max_length: int, hosts: Collection[str] = ()) -> Starlette:
    """Return the server of a model.

    Args:
        model: the model.
        name: the name that requests must use for it.
        max_length: maximum number of instructions in a program, as in training.
        hosts: names of the server that requests may have as Host, besides ``localhost`` and addresses.
    """
    batcher, work = Batcher(model), Work(AT_ONCE, MAX_REQUESTS)
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "cadmus"}

    def answer(body: bytes, abandoned: Event) -> Response:
        return JSONResponse(complete(model, batcher, name, max_length, read_request(body), abandoned))

    def answer_chat(body: bytes, abandoned: Event) -> Response:
        asked, stream, usage = read_chat(body, max_length + 1)
        found = complete(model, batcher, name, max_length, asked, abandoned)
        if stream:
            return StreamingResponse(as_stream(found, usage), media_type="text/event-stream")
        return JSONResponse(as_chat(found))

    async def respond(request: Request, answer: Callable[[bytes, Event], Response]) -> Response:
        with work.admitted():
            body = await _read(request)
            return await work.run(request, lambda abandoned: answer(body, abandoned))

    async def completions(request: Request) -> Response:
        return await respond(request, answer)

    async def chat_completions(request: Request) -> Response:
        return await respond(request, answer_chat)

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def list_models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [card]})

    async def show_model(request: Request) -> Response:
        check_model(request.path_params["model"], name)
        return JSONResponse(card)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", list_models),
            Route("/v1/models/{model:path}", show_model),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        ],
        middleware=[Middleware(HostCheck, names=hosts, refuse=_refuse)],
        exception_handlers={
            ApiError: _api_error,
            Overloaded: _overloaded,
            HTTPException: _no_route,
            ClientDisconnect: _disconnected,
            Exception: _defect,
        },
    )


async def _read(request: Request) -> bytes:
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        # Read to the end: a client that is still sending would not see the error.
        if size <= MAX_BYTES:
            body += chunk
    if size > MAX_BYTES:
        raise ApiError(f"the body has {size:,} bytes; at most {MAX_BYTES:,}", 413)
    return bytes(body)


def _refuse(message: str, status: int) -> Response:
    return JSONResponse(error_body(f"{message}; `cadmus serve --allow-host NAME` adds a name"), status)


def _overloaded(request: Request, error: Exception) -> Response:
    return JSONResponse(error_body(str(error), code="overloaded", kind="server_error"), 503, RETRY)


def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error_body(str(error), error.param, error.code), error.status)


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path!r}: {error.detail}; use POST /v1/completions"
    return JSONResponse(error_body(message), error.status_code, error.headers)


def _disconnected(request: Request, error: Exception) -> Response:
    # The client is gone; without a response, Starlette would print a traceback.
    return Response(status_code=400)


def _defect(request: Request, error: Exception) -> Response:
    message = "the server failed on this request; see its output"
    return JSONResponse(error_body(message, kind="server_error"), 500)
