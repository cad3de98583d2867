"""The explorer of a model: a site that runs wholly in the page.

``page/`` has a machine and a model in plain JavaScript, which tests compare with ours. :func:`write_site`
adds the data of a model and of snapshots of its training: the weights in fp16, tasks of the test split, and
for each a linear probe for the top of the stack, fitted to programs of the test split, mixed as in training.
"""

import base64
import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from cadmus import isa, store
from cadmus.api import tasks
from cadmus.config import LONGEST_PROGRAM, OF_THE_PAPER, TEMPLATES, Config, Dataset, Model, StateLabels
from cadmus.dataset import sampler
from cadmus.errors import InputError
from cadmus.evaluate import criteria
from cadmus.evaluate.questions import questions_of, title
from cadmus.experiments.probe import MOST_STEPS, TOLERANCE
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, stack
from cadmus.templates.behavior import DEFINITION, fresh_calls
from cadmus.templates.complete_algorithm import calls_in
from cadmus.tools import generator
from cadmus.train.labels import CLASSES, LARGEST, LONGEST, label_names, state_labels
from cadmus.train.paths import find_snapshots, step_of

PAGE = Path(__file__).with_name("page")
DATA = "site.json"
SHOWN = ("symbol", "name", "effect", "meaning", "inputs", "outputs", "literal")
ANYTHING = "anything", criteria.ANYTHING
FORMS: dict[Callable[..., Any], tuple[str, Any]] = {
    criteria.comparator: ("comparator", criteria.COMPARATOR),
    criteria.equal_expression: ("equality", criteria.EXPRESSION),
    criteria.written_answer: ("answer", criteria.ANSWER),
    criteria.definition: ("definition", DEFINITION),
    criteria.induced: ("induction", DEFINITION),
}
"""The name in ``page/grade.js`` of each criterion, and the form of a completion that meets it."""
TASKS = 40
"""Tasks of each question."""
PROGRAMS = 20_000
"""Programs that are drawn for the probe, about the least that the templates sample at once."""
FITTED, SCORED = 400, 200
"""Of them, those that it is fitted to and those that it is scored on."""
NEVER = -1e4
"""Logit of a label that the probe does not know."""


def headers() -> dict[str, str]:
    """Return HTTP headers for a server of the site: the policy of the page, and no page may embed it."""
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    # A page cannot forbid that others embed it, only a header.
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
    }


def write_site(
    model: Cadmus,
    name: str,
    config: Config | None,
    directory: Path,
    snapshots: Path | None = None,
    documentation: str | None = None,
) -> None:
    """Write the site of a model; an earlier site in ``directory`` is replaced, nothing else.

    Args:
        model: the trained model
        name: its name
        config: that of its training, if known
        directory: the files of the site
        snapshots: those of its training, for a slider
        documentation: address of the documentation that the page links
    """
    check_sizes(model.sizes, name)
    if directory.exists() and not (directory / DATA).exists() and any(directory.iterdir()):
        raise InputError(f"{directory}: is not empty, and no site of an earlier call; give another directory")
    models: list[tuple[int | None, str, Cadmus]] = []
    for path in find_snapshots(snapshots) if snapshots else []:
        snapshot = Cadmus.load(path)
        if snapshot.sizes != model.sizes:
            raise InputError(f"{path}: not a snapshot of {name}, whose sizes differ")
        models.append((step_of(path), f"{path.name}.bin", snapshot))
    models.append((None, "model.bin", model))
    dataset = config.dataset if config else Dataset()
    programs = _mixture(dataset)
    data = {
        "model": {
            "name": name,
            "parameters": sum(tensor.numel() for tensor in model.model.parameters()),
            **model.sizes.model_dump(),
            "vocabulary": isa.VOCABULARY_SIZE,
            "max_length": model.max_length,
        },
        # In the order of training; the trained model, without a step, is the last.
        "models": [
            {"step": step, "file": file, "probe": probe(each, config, programs)}
            for step, file, each in models
        ],
        "documentation": documentation,
        "values": {"low": dataset.values.low, "high": dataset.values.high},
        "longest": LONGEST_PROGRAM,
        "limits": isa.LIMITS,
        "instructions": [{key: getattr(row, key) for key in SHOWN} for row in isa.INSTRUCTIONS],
        "patterns": {name: form.pattern for name, form in (*FORMS.values(), ANYTHING)},
        "questions": _questions(dataset),
        "calls": {name: calls.to_strings() for name, calls in fresh_calls(dataset.model_dump_json()).items()},
        "labels": {"names": label_names(), "largest": LARGEST, "longest": LONGEST},
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    contents = {file.name: file.read_bytes() for file in PAGE.iterdir()}
    contents |= {file: weights(each) for _, file, each in models}
    contents[DATA] = text.encode()
    with store.replacing_together() as replaced:
        for file, content in contents.items():
            replaced(directory / file).write_bytes(content)


def check_sizes(sizes: Model, name: str) -> None:
    """Check that the page can run a model of these sizes."""
    if sizes.attention != "causal":
        raise InputError(f"{name}: model.attention: the page runs causal alone, not {sizes.attention}")


def weights(model: Cadmus) -> bytes:
    """Return the weights in fp16, little-endian, in the order in which GPT and ``page/gpt.js`` have them."""
    parameters = (each.detach().float().cpu().numpy() for each in model.model.parameters())
    return b"".join(each.astype("<f2").tobytes() for each in parameters)


def packed(values: np.ndarray) -> str:
    """Return an array as little-endian float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _questions(dataset: Dataset) -> dict[str, Any]:
    """Return the questions of the templates trained on by name, each with tasks of the test split."""
    found = {}
    for template in _counts(dataset):
        for name, question in questions_of(template).items():
            form, _ = FORMS.get(question.solves, ANYTHING)
            rows = []
            for task in islice(tasks(template, "test", question=name, dataset=dataset), TASKS):
                row = {"prompt": task.prompt, "reference": task.reference}
                rows.append(row | ({"calls": calls_in(task.prompt)} if form == "induction" else {}))
            found[name] = {"title": title(name), "form": form, "tasks": rows}
    return found


# On a busy machine, threads wait for each other longer than these small products take.
@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def probe(model: Cadmus, config: Config | None, programs: Programs) -> dict[str, Any]:
    """Fit the probe: a logistic regression from the output of a block to the label of the top of the stack.

    Labels are those of :mod:`cadmus.train.labels`: of what the program up to a token leaves. The block is the
    one that state supervision trains, two before the last by default.

    Returns weights, shape (classes, D), intercepts, layer (from 1), supervised (True if the block was trained
    to predict the label), and the fractions of scored tokens with the most likely label, accuracy, and with
    the most frequent one, majority.
    """
    train = config.train if config else None
    layer = (train and train.state_layer) or max(1, model.sizes.layers - 2)
    supervised = train is not None and train.state_weight > 0 and train.state_labels.top > 0
    features, labels = _tokens(model, layer, programs.take(np.arange(FITTED)))
    scaler = StandardScaler().fit(features)
    regression = LogisticRegression(tol=TOLERANCE, max_iter=MOST_STEPS)
    regression.fit(scaler.transform(features), labels)
    # Of the states themselves. Labels that no token of these programs has are never the most likely.
    fitted, intercepts = np.zeros((CLASSES, model.sizes.width)), np.full(CLASSES, NEVER)
    fitted[regression.classes_] = regression.coef_ / scaler.scale_
    intercepts[regression.classes_] = regression.intercept_
    intercepts -= fitted @ scaler.mean_
    features, expected = _tokens(model, layer, programs.take(np.arange(FITTED, FITTED + SCORED)))
    most_frequent = np.bincount(labels).argmax()
    return {
        "weights": packed(fitted),
        "intercepts": packed(intercepts),
        "layer": layer,
        "supervised": supervised,
        "accuracy": float(((features @ fitted.T + intercepts).argmax(1) == expected).mean()),
        "majority": float((expected == most_frequent).mean()),
    }


def _counts(dataset: Dataset) -> dict[str, int]:
    """Return the training programs of each template that has any; if none has, 1 of each of the paper."""
    counts = {name: getattr(dataset.templates, name).train for name in TEMPLATES}
    return {name: count for name, count in counts.items() if count} or dict.fromkeys(OF_THE_PAPER, 1)


def _mixture(dataset: Dataset) -> Programs:
    """Return about :data:`PROGRAMS` programs in random order."""
    counts = _counts(dataset)
    scale = PROGRAMS / sum(counts.values())
    wanted = {name: round(scale * count) for name, count in counts.items()}
    parts = (sampler.sample(dataset, 1, name, "test", 0, n).programs for name, n in wanted.items() if n)
    programs = stack(list(parts))
    return programs.take(generator(1, "references").permutation(len(programs)))


def _tokens(model: Cadmus, layer: int, programs: Programs) -> tuple[np.ndarray, np.ndarray]:
    """Return the output of a block at every instruction, shape (tokens, width), and the labels."""
    labels = state_labels(programs, StateLabels(), Dataset())[0][:, 0]
    features = np.empty((len(labels), model.sizes.width), np.float32)
    for length in np.unique(programs.lengths):
        rows = np.flatnonzero(programs.lengths == length)
        tokens = programs.offsets[rows, None] + np.arange(length)
        for part, states in model.hidden_states(programs.take(rows)):
            features[tokens[part]] = states[layer]
    return features, labels
