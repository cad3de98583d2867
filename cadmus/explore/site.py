"""The explorer of a model: a site that runs wholly in the page.

``page/`` has a machine and a model in plain JavaScript, which tests compare with ours. :func:`write_site`
adds the data of a model and of snapshots of its training: the weights in fp16 and tasks of the test split.
"""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from cadmus import isa, store
from cadmus.api import tasks
from cadmus.config import LONGEST_PROGRAM, OF_THE_PAPER, TEMPLATES, Config, Dataset
from cadmus.errors import InputError
from cadmus.evaluate import criteria
from cadmus.evaluate.questions import questions_of, title
from cadmus.explore.files import DATA, PAGE
from cadmus.model.inference import Cadmus
from cadmus.templates.behavior import DEFINITION, fresh_calls
from cadmus.templates.complete_algorithm import calls_in
from cadmus.train.paths import find_snapshots, step_of

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
    if not model.causal:
        raise InputError(f"{name}: model.attention: the page runs causal alone, not {model.sizes.attention}")
    present = {file.name for file in directory.iterdir()} if directory.exists() else set()
    others = present - {file.name for file in PAGE.iterdir()}
    if others and DATA not in others:
        raise InputError(f"{directory}: is not empty, and no site of an earlier call; give another directory")
    models: list[tuple[int | None, str, Cadmus]] = []
    for path in find_snapshots(snapshots) if snapshots else []:
        snapshot = Cadmus.load(path)
        if snapshot.sizes != model.sizes:
            raise InputError(f"{path}: not a snapshot of {name}, whose sizes differ")
        models.append((step_of(path), f"{path.name}.bin", snapshot))
    models.append((None, "model.bin", model))
    dataset = config.dataset if config else Dataset()
    data = {
        "model": {
            "name": name,
            "parameters": sum(tensor.numel() for tensor in model.model.parameters()),
            **model.sizes.model_dump(),
            "vocabulary": isa.VOCABULARY_SIZE,
            "max_length": model.max_length,
        },
        # In the order of training; the trained model, without a step, is the last.
        "models": [{"step": step, "file": file} for step, file, _ in models],
        "documentation": documentation,
        "values": {"low": dataset.values.low, "high": dataset.values.high},
        "longest": LONGEST_PROGRAM,
        "limits": isa.LIMITS,
        "instructions": [{key: getattr(row, key) for key in SHOWN} for row in isa.INSTRUCTIONS],
        "patterns": {name: form.pattern for name, form in (*FORMS.values(), ANYTHING)},
        "questions": _questions(dataset),
        "calls": {name: calls.to_strings() for name, calls in fresh_calls(dataset.model_dump_json()).items()},
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    contents = {file.name: file.read_bytes() for file in PAGE.iterdir()}
    contents |= {file: weights(each) for _, file, each in models}
    contents[DATA] = text.encode()
    with store.replacing_together() as replaced:
        for file, content in contents.items():
            replaced(directory / file).write_bytes(content)


def weights(model: Cadmus) -> bytes:
    """Return the weights in fp16, little-endian, in the order in which GPT and ``page/gpt.js`` have them."""
    parameters = (each.detach().float().cpu().numpy() for each in model.model.parameters())
    return b"".join(each.astype("<f2").tobytes() for each in parameters)


def _questions(dataset: Dataset) -> dict[str, Any]:
    """Return the questions of the templates trained on by name, each with tasks of the test split."""
    trained = [name for name in TEMPLATES if getattr(dataset.templates, name).train]
    found = {}
    for template in trained or OF_THE_PAPER:
        for name, question in questions_of(template).items():
            form, _ = FORMS.get(question.solves, ANYTHING)
            rows = []
            for task in islice(tasks(template, "test", question=name, dataset=dataset), TASKS):
                row = {"prompt": task.prompt, "reference": task.reference}
                rows.append(row | ({"calls": calls_in(task.prompt)} if form == "induction" else {}))
            found[name] = {"title": title(name), "form": form, "tasks": rows}
    return found
