"""The HTTP server of a model: routes and error responses."""

import time
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cadmus.model.inference import Cadmus
from cadmus.serve.batcher import Batcher
from cadmus.serve.chat import as_chat, as_stream, read_chat
from cadmus.serve.completion import complete
from cadmus.serve.protocol import MAX_BYTES, ApiError, check_model, error_body, read_request

AT_ONCE = 64
"""Maximum number of requests that are decoded in one batch; others wait."""


def application(model: Cadmus, name: str, max_length: int) -> Starlette:
    """Return the server of a model.

    Args:
        model: the model.
        name: the name that requests must use for it.
        max_length: maximum number of instructions in a program, as in training.
    """
    batcher, at_once = Batcher(model), CapacityLimiter(AT_ONCE)
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "cadmus"}

    def answer(body: bytes) -> Response:
        return JSONResponse(complete(model, batcher, name, max_length, read_request(body)))

    def answer_chat(body: bytes) -> Response:
        asked, stream, usage = read_chat(body, max_length + 1)
        found = complete(model, batcher, name, max_length, asked)
        if stream:
            return StreamingResponse(as_stream(found, usage), media_type="text/event-stream")
        return JSONResponse(as_chat(found))

    async def respond(request: Request, answer: Callable[[bytes], Response]) -> Response:
        body = bytearray()
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            # Read to the end: a client that is still sending would not see the error.
            if size <= MAX_BYTES:
                body += chunk
        if size > MAX_BYTES:
            raise ApiError(f"the body has {size:,} bytes; at most {MAX_BYTES:,}", 413)
        return await to_thread.run_sync(answer, bytes(body), limiter=at_once)

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
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _no_route,
            ClientDisconnect: _disconnected,
            Exception: _defect,
        },
    )


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
