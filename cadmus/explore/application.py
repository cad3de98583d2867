"""The HTTP server of the explorer: its page, and the page's requests."""

import random
import reprlib
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cadmus import isa
from cadmus.config import TEMPLATES, Config, Dataset
from cadmus.dataset import sampler
from cadmus.errors import InputError
from cadmus.explore import inspection
from cadmus.explore.references import References, fit
from cadmus.model.inference import Cadmus
from cadmus.serve.server import application

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


def explorer(model: Cadmus, name: str, config: Config | None) -> Starlette:
    """Return the server of a model's page.

    Args:
        model: the model.
        name: the name to show.
        config: the config of its training, if known; samples are of the test split of its dataset.
    """
    dataset = config.dataset if config else Dataset()
    fitting = threading.Lock()
    fitted: list[References] = []

    @cache
    def stock(template: str) -> list[str]:
        return sampler.sample(dataset, 1, template, "test", 0, STOCK).programs.to_strings()

    def machine(request: Request) -> dict[str, Any]:
        parameters = sum(tensor.numel() for tensor in model.model.parameters())
        return {
            "model": {"name": name, "parameters": parameters, **model.sizes.model_dump()},
            "max_length": model.max_length,
            "templates": list(TEMPLATES),
            "instructions": [
                {"symbol": row.symbol, "name": row.name, "effect": row.effect, "meaning": row.meaning}
                for row in isa.INSTRUCTIONS
            ],
        }

    def references(request: Request) -> dict[str, Any]:
        with fitting:
            if not fitted:
                fitted.append(fit(model, config))
        return inspection.references(fitted[0])

    def sample(request: Request) -> dict[str, Any]:
        return {"program": random.choice(stock(_value(request, "template"))) + isa.END}

    def inspect(request: Request) -> dict[str, Any]:
        probe = fitted[0].probe if fitted else None
        return inspection.inspect(model, _program(request), _value(request, "calls") == "true", probe)

    def attention(request: Request) -> dict[str, Any]:
        layer = _value(request, "layer")
        # Python refuses to read numbers of thousands of digits.
        if not (layer.isascii() and layer.isdigit() and len(layer) < 10):
            raise InputError(f"layer: must be an integer, got {reprlib.repr(layer)}")
        return inspection.attention(model, _program(request), int(layer))

    def complete(request: Request) -> dict[str, Any]:
        return inspection.complete(model, _program(request))

    def file(request: Request) -> Response:
        return FileResponse(PAGE / FILES[request.url.path], headers=HEADERS)

    def answering(answer: Callable[[Request], dict[str, Any]]) -> Callable[[Request], Response]:
        return lambda request: JSONResponse(answer(request), headers=HEADERS)

    answers = (machine, references, sample, inspect, attention, complete)
    return application(
        [
            *(Route(path, file) for path in FILES),
            *(Route(f"/api/{answer.__name__}", answering(answer)) for answer in answers),
        ]
    )


def _value(request: Request, field: str) -> str:
    return request.query_params.get(field, "")


def _program(request: Request) -> str:
    return isa.without_spaces(_value(request, "program"))
