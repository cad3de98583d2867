"""The HTTP server of the explorer: its page, and the page's requests.

The page compares the model with a bigram baseline, and a linear probe for the top of the stack. Both are
fitted to programs of the test split, mixed as in training. This takes seconds, so the page asks for them
after its first program.
"""

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
from cadmus.config import LONGEST_PROGRAM, TEMPLATES, Config, Dataset, StateLabels
from cadmus.dataset import sampler
from cadmus.errors import InputError
from cadmus.evaluate.regressions import Regressions
from cadmus.model import completing
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, stack
from cadmus.serve.server import application
from cadmus.tools import generator
from cadmus.train.labels import CLASSES, label_names, state_labels
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
MAX_VALUES = 50_000
"""Maximum number of values that the stacks of all steps have together."""
PROGRAMS = 20_000
"""Programs whose bigrams are counted, about the least that the templates sample at once."""
FITTED, SCORED = 400, 200
"""Of them, those that the probe is fitted to, half a second of one core, and those that it is scored on."""
STEPS, BATCHES = 200, 20
"""Steps and minibatches of the probe's solver."""


Probe = Callable[[str], list[dict[str, Any]]]
"""Returns the most likely label after each instruction of a program, its probability, and the true label."""


def explorer(model: Cadmus, name: str, config: Config | None) -> Starlette:
    """Return the server of a model's page; samples are of the test split, with the training's ``config``."""
    dataset = config.dataset if config else Dataset()
    fitting = threading.Lock()
    fitted: list[tuple[dict[str, Any], Probe]] = []

    @cache
    def stock(template: str) -> list[str]:
        return sampler.sample(dataset, 1, template, "test", 0, 256).programs.to_strings()

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
        return fitted[0][0]

    def sample(template: str = "", **others: str) -> dict[str, Any]:
        return {"program": random.choice(stock(template)) + isa.END}

    def inspected(program: str = "", calls: str = "", **others: str) -> dict[str, Any]:
        return inspect(model, program, calls == "true", fitted[0][1] if fitted else None)

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


def inspect(model: Cadmus, text: str, calls: bool = False, probe: Probe | None = None) -> dict[str, Any]:
    """Execute a program, with or without its end ``.``, and read it with a model.

    ``calls`` lists the steps inside calls as well, before the instruction that calls.

    Returns:
        program (without the end), ended (True if the text had the end), true, outputs, steps (of each
        executed instruction: its place from 0, the number of calls around it and the stack after it), read
        (what the ``probe`` reads) and lens, the probability that each instruction comes next at
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
        "read": probe and probe(program),
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


def fit(model: Cadmus, config: Config | None) -> tuple[dict[str, Any], Probe]:
    """Sample programs, count their bigrams and fit the probe; ``config`` is that of the training, if known.

    The probe is a logistic regression from the output of a block to the label of the top of the stack, one of
    those of :mod:`cadmus.train.labels`: of what the program up to a token leaves. The block is the one that
    state supervision trains, two before the last by default.

    Returns the probe and, before it, bigrams (how often each instruction follows each, as a fraction; shape
    (65, 65)), programs, layer (from 1), supervised (True if the block was trained to predict the label),
    accuracy, the fraction of scored tokens with the most likely label, and majority, with the most frequent.
    """
    programs = _mixture(config.dataset if config else Dataset())
    train = config.train if config else None
    layer = (train and train.state_layer) or max(1, model.sizes.layers - 2)
    supervised = train is not None and train.state_weight > 0 and train.state_labels.top > 0
    features, labels = _tokens(model, layer, programs.take(np.arange(FITTED)))
    order = torch.from_numpy(generator(1, "probe").permutation(len(labels)))
    counts = torch.nn.functional.one_hot(labels, CLASSES).float()
    regressions = Regressions(features[None, order], counts[order])
    ((weights, intercepts),) = regressions.fit([1.0], [STEPS], BATCHES)
    features, expected = _tokens(model, layer, programs.take(np.arange(FITTED, FITTED + SCORED)))
    right = (features @ weights[0] + intercepts[0, 0]).argmax(-1) == expected
    accuracy, majority = (float(hits.float().mean()) for hits in (right, expected == counts.sum(0).argmax()))
    found = {"bigrams": packed(_bigrams(programs)), "programs": len(programs), "layer": layer}
    found |= {"supervised": supervised, "accuracy": accuracy, "majority": majority}

    def probe(program: str) -> list[dict[str, Any]]:
        features, labels = _tokens(model, layer, Programs.from_strings([program]))
        probabilities, read = (features @ weights[0] + intercepts[0, 0]).softmax(-1).max(-1)
        names = label_names()
        rows = zip(read.tolist(), probabilities.tolist(), labels.tolist(), strict=True)
        return [
            {"label": names[label], "probability": round(probability, 4), "true": names[true]}
            for label, probability, true in rows
        ]

    return found, probe


def _mixture(dataset: Dataset) -> Programs:
    """Return about :data:`PROGRAMS` programs in random order."""
    counts = {name: getattr(dataset.templates, name).train for name in TEMPLATES}
    scale = PROGRAMS / sum(counts.values())
    wanted = {name: round(scale * count) for name, count in counts.items()}
    programs = stack(
        [sampler.sample(dataset, 1, name, "test", 0, n).programs for name, n in wanted.items() if n]
    )
    return programs.take(generator(1, "references").permutation(len(programs)))


def _bigrams(programs: Programs) -> np.ndarray:
    tokens = programs.to_tokens()
    # Every program is followed by the end, the padding.
    after = np.pad(tokens[:, 1:], ((0, 0), (0, 1)), constant_values=isa.END_ID)
    inside = np.arange(tokens.shape[1]) < programs.lengths[:, None]
    counts = np.zeros((isa.VOCABULARY_SIZE, isa.VOCABULARY_SIZE))
    np.add.at(counts, (tokens[inside], after[inside]), 1)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _tokens(model: Cadmus, layer: int, programs: Programs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output of a block at every instruction, shape (tokens, width), and the labels."""
    labels = state_labels(programs, StateLabels())[:, 0]
    features = np.empty((len(labels), model.sizes.width), np.float32)
    for length in np.unique(programs.lengths):
        rows = np.flatnonzero(programs.lengths == length)
        tokens = programs.offsets[rows, None] + np.arange(length)
        for part, states in model.hidden_states(programs.take(rows)):
            features[tokens[part]] = states[layer]
    return torch.from_numpy(features), torch.from_numpy(labels)
