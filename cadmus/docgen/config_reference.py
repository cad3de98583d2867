"""What is written about the configuration: its JSON schema and the tables of ``config/README.md``."""

import inspect
import json
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from cadmus.config import RECIPES, Config

INTRODUCTION = """\
# Configuration

A file here names a run and its scale; `make run CONFIG=config/NAME.yaml` or
`snakemake --cores all --configfile config/NAME.yaml` makes it, and its results lie in `results/<name>`.
Copy one, give it another `name`, change what you are interested in.  Everything that a file leaves out has
the default below.  `cadmus config show config/NAME.yaml` prints a file with all its defaults, or one line
that says what is wrong with it.

A file can extend another and hold only what differs:

```yaml
extends: quick  # a file here, or a path relative to this one
name: wider
model: {width: 192}
```

The tables are written from `cadmus/config/schema.py` and the files by `cadmus config document`.

Another Snakemake workflow can take this one as a module, with one of these files as its `config/config.yaml`:

```python
configfile: "config/config.yaml"


module cadmus:
    snakefile:
        "/path/to/cadmus/workflow/Snakefile"
    config:
        config


use rule * from cadmus
```

The rules call the Python package of the checkout that the path leads to.  Where the path is an address, as
after `snakedeploy deploy-workflow`, the package has to be installed, in the same version, in the environment
that runs Snakemake; `--sdm conda` does not bring it.
"""

EXTENDS_MEANING = "config to extend: the name of a file in config/, or a path relative to this file"


def schema() -> str:
    """The JSON schema of a config file, for editors and for other tools."""
    described = Config.model_json_schema()
    # Resolved when a file is read, so it is no field.
    described["properties"]["extends"] = {
        "description": EXTENDS_MEANING,
        "title": "Extends",
        "type": "string",
    }
    required = described.pop("required")
    described["anyOf"] = [{"required": required}, {"required": ["extends", "name"]}]
    return json.dumps(described, indent=1) + "\n"


def readme(root: Path) -> str:
    """``config/README.md``: the files of a checkout, and one table for each section of the config."""
    files = [
        [f"[{path.name}]({path.name})", _purpose(path)] for path in sorted((root / "config").glob("*.yaml"))
    ]
    parts = [INTRODUCTION, _table(["file", "for"], files)]
    _describe("", Config, parts)
    names = list(dict.fromkeys(name for recipe in RECIPES.values() for name in recipe))
    rows = [[f"`{name}`", *(f"`{recipe.get(name)}`" for recipe in RECIPES.values())] for name in names]
    parts.append("## Recipes\n\nWhat `train.recipe` sets for the fields that are not given:\n")
    parts.append(_table(["field", *(f"`{name}`" for name in RECIPES)], rows))
    return "\n".join(parts)


def documents(root: Path) -> dict[Path, str]:
    """The generated files of a checkout and their contents."""
    return {
        root / "workflow/schemas/config.schema.json": schema(),
        root / "config/README.md": readme(root),
    }


def _purpose(path: Path) -> str:
    """The first comment of a config file that is meant for people."""
    comments = (line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return next((text for text in comments if not text.startswith("yaml-language-server")), "")


def _describe(path: str, section: type[BaseModel], parts: list[str]) -> None:
    rows, below = [], []
    for name, field in section.model_fields.items():
        place = f"{path}.{name}" if path else name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            below.append((place, field.annotation))
        else:
            rows.append([f"`{name}`", _type(field), _default(field), field.description or ""])
            if get_origin(field.annotation) is dict:
                below.append((f"{place}.NAME", get_args(field.annotation)[-1]))
    parts.append(f"## `{path}`\n" if path else "## Top level\n")
    parts.append(inspect.cleandoc(section.__doc__ or "") + "\n")
    if rows:
        parts.append(_table(["field", "type", "default", "meaning"], rows))
    for place, annotation in below:
        _describe(place, annotation, parts)


def _type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(item, attribute)}"
        for item in field.metadata
        for attribute, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        if getattr(item, attribute, None) is not None
    ]
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
        return "sections by name"
    return {int: "integer", float: "number", str: "text", bool: "true or false", type(None): "null"}[
        annotation
    ]


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    return f"`{json.dumps(field.default)}`"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
