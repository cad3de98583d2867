"""The HTTP server of the explorer: its page, and the page's requests."""

import base64
import random
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cadmus import isa
from cadmus.config import LONGEST_PROGRAM, TEMPLATES, Config, Dataset
from cadmus.dataset import sampler
from cadmus.errors import InputError
from cadmus.explore.references import References, fit
from cadmus.model import completing
from cadmus.model.inference import Cadmus
from cadmus.serve.server import application
from cadmus.vm import reference

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
SHOWN = ("symbol", "name", "effect", "meaning")
STOCK = 256
"""Programs sampled per template at its first request."""
MAX_VALUES = 50_000
"""Maximum number of values that the stacks of all steps have together."""


def explorer(model: Cadmus, name: str, config: Config | None) -> Starlette:
    """Return the server of a model's page; samples are of the test split, with the training's ``config``."""
    dataset = config.dataset if config else Dataset()
    fitting = threading.Lock()
    fitted: list[References] = []

    @cache
    def stock(template: str) -> list[str]:
        return sampler.sample(dataset, 1, template, "test", 0, STOCK).programs.to_strings()

    def machine(**others: str) -> dict[str, Any]:
        parameters = sum(tensor.numel() for tensor in model.model.parameters())
        return {
            "model": {"name": name, "parameters": parameters, **model.sizes.model_dump()},
            "max_length": model.max_length,
            "templates": list(TEMPLATES),
            "instructions": [{key: getattr(row, key) for key in SHOWN} for row in isa.INSTRUCTIONS],
        }

    def references(**others: str) -> dict[str, Any]:
        with fitting:
            if not fitted:
                fitted.append(fit(model, config))
        shown = ("programs", "layer", "supervised", "accuracy", "majority")
        return {"bigrams": packed(fitted[0].bigrams)} | {name: getattr(fitted[0], name) for name in shown}

    def sample(template: str = "", **others: str) -> dict[str, Any]:
        return {"program": random.choice(stock(template)) + isa.END}

    def inspected(program: str = "", calls: str = "", **others: str) -> dict[str, Any]:
        return inspect(model, program, calls == "true", fitted[0] if fitted else None)

    def attention(program: str = "", layer: str = "", **others: str) -> dict[str, Any]:
        """Return the attention weights of a block from 1, shape (heads, tokens, tokens)."""
        if layer not in map(str, range(1, model.sizes.layers + 1)):
            raise InputError(f"layer: must be 1 to {model.sizes.layers}, got {layer[:20]!r}")
        ((_, weights),) = model.attention([read(program)])
        return packed(weights[int(layer) - 1, 0])

    def complete(program: str = "", **others: str) -> dict[str, Any]:
        prefix = isa.check_prefix(isa.without_spaces(program))
        read(prefix)
        (completion,) = completing.complete(model, [prefix], max(model.max_length, len(prefix)))
        return {"program": prefix + completion.written}

    def answering(answer: Callable[..., dict[str, Any]]) -> Callable[[Request], Response]:
        return lambda request: JSONResponse(answer(**request.query_params), headers=HEADERS)

    def file(request: Request) -> Response:
        return FileResponse(PAGE / FILES[request.url.path], headers=HEADERS)

    answers = {"machine": machine, "references": references, "sample": sample}
    answers |= {"inspect": inspected, "attention": attention, "complete": complete}
    api = [Route(f"/api/{path}", answering(answer)) for path, answer in answers.items()]
    return application([*(Route(path, file) for path in FILES), *api])


def inspect(
    model: Cadmus, text: str, calls: bool = False, references: References | None = None
) -> dict[str, Any]:
    """Execute a program, with or without its end ``.``, and read it with a model.

    ``calls`` lists the steps inside calls as well, before the instruction that calls.

    Returns:
        program (without the end), ended (True if the text had the end), true, outputs, steps (of each
        executed instruction: its place from 0, the number of calls around it and the stack after it), read
        (what the probe of ``references`` reads) and lens, the probability that each instruction comes next at
        each layer (0 is the embedding, the last is the model's output), shape (layers + 1, tokens, 65).
    """
    program = read(text)
    steps = reference.trace(program, calls=calls)
    if (count := sum(len(step.stack) for step in steps)) > MAX_VALUES:
        hint = "; leave out the steps inside calls" if calls else ""
        raise InputError(f"the stacks have {count:,} values to show; at most {MAX_VALUES:,}{hint}")
    result = reference.run(program)
    ((_, logits),) = model.layer_logits([program])
    return {
        "program": program,
        "ended": isa.END in text,
        "true": result.true,
        "outputs": list(map(reference.plain, result.outputs)),
        "steps": [
            {"place": step.position, "depth": step.depth, "stack": list(map(reference.plain, step.stack))}
            for step in steps
        ],
        "read": references and references.read(model, program),
        "lens": packed(torch.from_numpy(logits[:, 0]).softmax(-1).numpy()),
    }


def read(text: str) -> str:
    """Return a text as a program without spaces and its end."""
    program = isa.check_program(isa.without_spaces(text)).partition(isa.END)[0]
    if not program:
        raise InputError("the program is empty; type instructions, or sample one")
    if len(program) > LONGEST_PROGRAM:
        raise InputError(f"the program has {len(program)} instructions; at most {LONGEST_PROGRAM}")
    return program


def packed(values: np.ndarray) -> dict[str, Any]:
    """Return an array as JSON: its shape, and its values as little-endian float32 in base64."""
    data = base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
    return {"shape": values.shape, "data": data}
