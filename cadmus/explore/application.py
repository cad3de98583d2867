"""The HTTP server of the explorer: its page and the page's requests, for browsers on this machine only."""

import random
import re
import reprlib
import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cadmus import isa
from cadmus.config import TEMPLATES, Config, Dataset
from cadmus.dataset import sampler
from cadmus.errors import InputError
from cadmus.explore import inspection
from cadmus.explore.references import References, fit
from cadmus.model.inference import Cadmus
from cadmus.web.hosts import HostCheck
from cadmus.web.work import RETRY, Overloaded, Work

AT_ONCE = 4
"""Maximum number of requests that are computed at once; others wait."""
MAX_REQUESTS = 64
"""Maximum number of requests that wait or are computed; others are refused."""
PAGE = Path(__file__).with_name("page")
FILES = {"/": "index.html", "/explore.js": "explore.js", "/explore.css": "explore.css"}
HEADERS = {
    # The page loads nothing from other sites, and no other site can inject anything.
    "Content-Security-Policy": (
        "default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # A cached page of an older version would send outdated requests.
    "Cache-Control": "no-cache",
}
STOCK = 256
"""Programs sampled per template at its first request."""


def application(model: Cadmus, name: str, config: Config | None) -> Starlette:
    """Return the server of a model's page.

    Args:
        model: the model.
        name: the name to show.
        config: the config of its training, if known; samples are of the test split of its dataset.
    """
    dataset = config.dataset if config else Dataset()
    parameters = sum(tensor.numel() for tensor in model.model.parameters())
    machine = {
        "model": {"name": name, "parameters": parameters, **model.sizes.model_dump()},
        "max_length": model.max_length,
        "templates": list(TEMPLATES),
        "instructions": [
            {"symbol": row.symbol, "name": row.name, "effect": row.effect, "meaning": row.meaning}
            for row in isa.INSTRUCTIONS
        ],
    }

    @lru_cache
    def stock(template: str) -> list[str]:
        return sampler.sample(dataset, 1, template, "test", 0, STOCK).programs.to_strings()

    def sample(template: str) -> dict[str, str]:
        return {"program": random.choice(stock(template)) + isa.END}

    fitting = threading.Lock()
    fitted: list[References] = []

    def references() -> dict[str, Any]:
        with fitting:
            if not fitted:
                fitted.append(fit(model, config))
        return inspection.references(fitted[0])

    def inspect(program: str, calls: str) -> dict[str, Any]:
        probe = fitted[0].probe if fitted else None
        return inspection.inspect(model, isa.without_spaces(program), calls == "true", probe)

    def complete(program: str) -> dict[str, Any]:
        return inspection.complete(model, isa.without_spaces(program))

    def attention(program: str, layer: str) -> dict[str, Any]:
        # Python refuses to read numbers of thousands of digits.
        if not re.fullmatch("[0-9]{1,9}", layer):
            raise InputError(f"layer: must be an integer, got {reprlib.repr(layer)}")
        return inspection.attention(model, program, int(layer))

    work = Work(AT_ONCE, MAX_REQUESTS)

    def answering(
        answer: Callable[..., dict[str, Any]], *fields: str
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            given = dict(request.query_params)
            if missing := [field for field in fields if field not in given]:
                raise InputError(f"{missing[0]}: missing")
            with work.admitted():
                return await work.run(
                    request,
                    lambda _: JSONResponse(answer(*(given[field] for field in fields)), headers=HEADERS),
                )

        return endpoint

    def file(request: Request) -> Response:
        return FileResponse(PAGE / FILES[request.url.path], headers=HEADERS)

    def refuse(message: str, status: int) -> Response:
        return JSONResponse({"error": message}, status, HEADERS)

    def bad_request(request: Request, error: Exception) -> Response:
        return refuse(str(error), 400)

    def overloaded(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 503, {**HEADERS, **RETRY})

    def disconnected(request: Request, error: Exception) -> Response:
        # The client is gone; without a response, Starlette would print a traceback.
        return Response(status_code=400)

    def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refuse(f"{request.url.path}: {error.detail}", error.status_code)

    return Starlette(
        routes=[
            *(Route(path, file) for path in FILES),
            Route("/api/machine", answering(lambda: machine)),
            Route("/api/references", answering(references)),
            Route("/api/sample", answering(sample, "template")),
            Route("/api/inspect", answering(inspect, "program", "calls")),
            Route("/api/attention", answering(attention, "program", "layer")),
            Route("/api/complete", answering(complete, "program")),
        ],
        middleware=[Middleware(HostCheck, names=(), refuse=refuse)],
        exception_handlers={
            InputError: bad_request,
            Overloaded: overloaded,
            ClientDisconnect: disconnected,
            HTTPException: no_route,
        },
    )
