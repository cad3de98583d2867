"""Generate the reference of configs, the JSON schema, and tables of documents."""

import inspect
import json
import os
import re
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from click.testing import CliRunner
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cadmus.cli.main import cadmus
from cadmus.config import PAPER, Config
from cadmus.config.study import STUDY, Study
from cadmus.evaluate.questions import definitions
from cadmus.pages.manual import manual
from cadmus.store import write_text
from cadmus.tables import markdown
from dev.docs import with_generated

BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""pydantic's names of bounds, which it keeps for fields with a validator, and those of JSON Schema."""
SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
HEADINGS = ["question", "the prompt ends", "a verified completion solves it if"]
SCALES = "quick", "laptop", "h100", "h200", "paper"
PLANNED = {
    "parameters": r"^model +(\S+) parameters",
    "training FLOPs": r"^compute +about (\S+) FLOPs",
    "2 cores, bf16": r"^2 CPU cores  +(\S+ \w+)",
    "2 cores with AMX": r"^2 CPU cores with AMX +(\S+ \w+)",
    "2 cores, no bf16": r"^2 CPU cores without bf16 +(\S+ \w+)",
    "one H100": r"^H100 +(\S+ \w+)",
    "memory": r"^memory +at most (\S+) of",
    "disk": r"^disk +at most (\S+):",
}
"""Columns of the table of configs in ``docs/index.md``, and where `cadmus plan` prints them."""
EXTENDS_MEANING = "config to extend: name of a file in config/, or a path relative to this file"


def schema() -> str:
    """Return the JSON schema of a config file, for editors and other tools."""
    described = Config.model_json_schema()
    # Resolved on loading, so not a field.
    extends = {"description": EXTENDS_MEANING, "title": "Extends", "type": "string"}
    of_study = Study.model_json_schema()
    described["$defs"] |= of_study.pop("$defs", {})
    described["properties"] |= {"extends": extends, STUDY: of_study}
    described["anyOf"] = [{"required": described.pop("required")}, {"required": ["extends", "name"]}]
    text = json.dumps(described, indent=1) + "\n"
    return re.sub(r'"(\w\w)":', lambda hit: f'"{BOUNDS.get(hit[1], hit[1])}":', text)


def documents(root: Path) -> dict[Path, str]:
    """Return the generated files of a checkout and their contents."""
    readme, grading, index = (
        root / name for name in ("config/README.md", "docs/grading.md", "docs/index.md")
    )
    return {
        root / "workflow/schemas/config.schema.json": schema(),
        readme: with_generated(readme, tables(root)),
        grading: with_generated(grading, markdown(HEADINGS, questions())),
        index: with_generated(index, markdown(["config", *PLANNED], plans())),
        root / "docs/isa.md": manual(),
    }


def write(root: Path) -> None:
    """Write the generated files of a checkout."""
    for path, text in documents(root).items():
        write_text(path, text)


def questions() -> list[list[str]]:
    """Return the definitions of the questions; questions with the same definition share a row."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, prompt, condition in definitions():
        names.setdefault((prompt, condition), []).append(name)
    return [["; ".join(same), prompt, condition] for (prompt, condition), same in names.items()]


def plans() -> list[list[str]]:
    """Return what `cadmus plan` prints about each scale."""
    printed = {name: CliRunner().invoke(cadmus, ["plan", name]).output for name in SCALES}
    return [
        [name, *(re.findall(pattern, text, re.MULTILINE)[0] for pattern in PLANNED.values())]
        for name, text in printed.items()
    ]


def tables(root: Path) -> str:
    """Return the configs of a checkout and one table per section."""
    config = root / "config"
    paths = [*sorted(config.glob("*.yaml")), *sorted(root.glob("docs/findings/**/study.yaml"))]
    paths += root.glob("docs/records/speedrun.yaml")
    files = [
        [f"[{path.relative_to(root)}]({os.path.relpath(path, config)})", _purpose(path)] for path in paths
    ]
    parts = [markdown(["file", "for"], files)]
    _describe("", Config, parts)
    _describe(STUDY, Study, parts)
    rows = [[f"`{name}`", f"`{json.dumps(value)}`"] for name, value in PAPER.items()]
    parts.append("## Recipes\n\nDefaults of `train.recipe: paper`:\n")
    parts.append(markdown(["field", "`paper`"], rows))
    return "\n".join(parts)


def _purpose(path: Path) -> str:
    """Return the first comment of a config file that is not for the editor."""
    comments = (line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return next((text for text in comments if not text.startswith("yaml-language-server")), "")


def _describe(path: str, section: type[BaseModel], parts: list[str]) -> None:
    rows, below = [], []
    for name, field in section.model_fields.items():
        place = f"{path}.{name}" if path else name
        if isinstance(field.annotation, type(BaseModel)):
            below.append((place, field.annotation))
        else:
            meaning = " ".join((field.description or "").split())
            default = "required" if field.is_required() else f"`{json.dumps(field.default)}`"
            rows.append([f"`{name}`", _type(field), default, meaning])
            values = get_args(field.annotation)[-1:] if get_origin(field.annotation) is dict else ()
            below += [(f"{place}.NAME", of) for of in values if isinstance(of, type(BaseModel))]
    parts.append(f"## `{path}`\n" if path else "## Top level\n")
    parts.append(inspect.cleandoc(section.__doc__ or "") + "\n")
    if rows:
        parts.append(markdown(["field", "type", "default", "meaning"], rows))
    for place, annotation in below:
        _describe(place, annotation, parts)


def _type(field: FieldInfo) -> str:
    found = ((sign, getattr(item, name, None)) for item in field.metadata for name, sign in SIGNS.items())
    bounds = [f"{sign} {bound}" for sign, bound in found if bound is not None]
    return ", ".join([_name(field.annotation), *bounds])


def _name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _name(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_name, arguments))
    if origin is list:
        return f"list of {_name(arguments[0])}"
    if origin is dict:
        values = get_origin(arguments[-1]) or arguments[-1]
        return {dict: "mappings by name", Annotated: "lists by name"}.get(values, "sections by name")
    names = {int: "integer", float: "number", str: "text", bool: "true or false", type(None): "null"}
    return names[annotation]
