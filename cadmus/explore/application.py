"""The HTTP server of the explorer: its page and the page's requests, for browsers on this machine only."""

import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cadmus import isa
from cadmus.config import TEMPLATES, Dataset
from cadmus.dataset import sampler
from cadmus.errors import InputError
from cadmus.explore import inspection
from cadmus.model.inference import Cadmus

PAGE = Path(__file__).with_name("page")
FILES = {"/": "index.html", "/explore.js": "explore.js", "/explore.css": "explore.css"}
HEADERS = {
    # The page loads nothing from other sites, and no other site can inject anything.
    "Content-Security-Policy": "default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    # A cached page of an older version would send outdated requests.
    "Cache-Control": "no-cache",
}
STOCK = 256
"""Programs sampled per template at its first request."""


def application(model: Cadmus, name: str, dataset: Dataset) -> Starlette:
    """Return the server of a model's page.

    Args:
        model: the model.
        name: the name to show.
        dataset: the dataset of its training; samples are of its test split.
    """
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

    def inspect(program: str, calls: str) -> dict[str, Any]:
        return inspection.inspect(model, program, calls == "true")

    def attention(program: str, layer: str) -> dict[str, Any]:
        if not layer.isdecimal():
            raise InputError(f"layer: must be an integer, got {layer!r}")
        return inspection.attention(model, program, int(layer))

    # Starlette runs endpoints that are not async in threads, so a slow one does not block the others.
    def answering(answer: Callable[..., dict[str, Any]], *fields: str) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            given = dict(request.query_params)
            if missing := [field for field in fields if field not in given]:
                raise InputError(f"{missing[0]}: missing")
            return JSONResponse(answer(*(given[field] for field in fields)), headers=HEADERS)

        return endpoint

    def file(request: Request) -> Response:
        return FileResponse(PAGE / FILES[request.url.path], headers=HEADERS)

    def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 400, HEADERS)

    def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": f"{request.url.path}: {error.detail}"}, error.status_code, HEADERS)

    return Starlette(
        routes=[
            *(Route(path, file) for path in FILES),
            Route("/api/machine", answering(lambda: machine)),
            Route("/api/sample", answering(sample, "template")),
            Route("/api/inspect", answering(inspect, "program", "calls")),
            Route("/api/attention", answering(attention, "program", "layer")),
            Route("/api/complete", answering(lambda program: inspection.complete(model, program), "program")),
        ],
        # DNS rebinding: a site whose name resolves to this machine must not read our pages.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        exception_handlers={InputError: refuse, HTTPException: no_route},
    )
