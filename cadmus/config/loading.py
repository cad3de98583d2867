"""Reading configs: YAML, configs that extend others, and errors in one line."""

import functools
import importlib
import reprlib
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError, create_model

from cadmus.config.schema import Config, Evaluate
from cadmus.errors import InputError, suggest

CONFIGS = Path(__file__).parents[2] / "config"
"""The configs that come with a checkout."""
EXTENDS = "extends"
"""The key that names the config to extend."""
RENAMED = {
    "evaluate.lens_programs": "lens.programs",
    "evaluate.patch_programs": "patch.programs",
    "evaluate.programs": "completions.programs",
    "evaluate.snapshot_programs": "curve.programs",
    "held_out": "ood",
    "held_out_programs": "ood_programs",
    "held_out_share": "eval_fraction",
    "uniform_share": "uniform_fraction",
    "warmup_share": "warmup_fraction",
}
"""Fields of earlier versions and their names today."""


@functools.cache
def config_model() -> type[Config]:
    """Return the config with a section of ``evaluate`` for each registered experiment."""
    # Imported by name: experiments are plugins of the config, and import it.
    registry = importlib.import_module("cadmus.experiments")
    sections: dict[str, Any] = {}
    for name in registry.NAMES:
        settings = registry.get(name).settings
        sections[name] = (settings, settings())
    evaluate = create_model("Evaluate", __base__=Evaluate, __doc__=Evaluate.__doc__, **sections)
    return create_model("Config", __base__=Config, __doc__=Config.__doc__, evaluate=(evaluate, evaluate()))


def parse_config(values: Any, source: str) -> Config:
    """Check a mapping, as read from YAML or given by a workflow, and fill in the defaults.

    Raises:
        InputError: naming ``source``, the key, what is wrong and what is valid.
    """
    if not isinstance(values, dict):
        raise InputError(f"{source}: a config is a mapping of keys to values, for example `name: quick`")
    try:
        return config_model().model_validate(values)
    except ValidationError as error:
        raise InputError(f"{source}: {_describe(error, values)}") from None


class _Loader(yaml.SafeLoader):
    """YAML in which no key comes twice, of which the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} comes twice", problem_mark=key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_config(path: Path | str) -> Config:
    """Read a config file and those that it extends.

    Raises:
        InputError: a file is missing, is not YAML or holds something invalid.
    """
    return parse_config(extended(read_yaml(path), Path(path)), str(path))


def find_config(name: str) -> Path | None:
    """The config of a checkout with this name, such as ``quick``; None if there is none."""
    path = CONFIGS / f"{name}.yaml"
    return path if path.is_file() and path.parent == CONFIGS else None


def _names() -> list[str]:
    return sorted(file.stem for file in CONFIGS.glob("*.yaml"))


def extended(values: Any, path: Path) -> Any:
    """Complete values with those of the config that their key ``extends`` names.

    Mappings are merged key by key; any other value replaces that of the extended config.

    Args:
        values: as read from ``path``.
        path: the file, to whose folder a path in ``extends`` is relative.

    Raises:
        InputError: the extended config is missing or invalid YAML, extends this one, or the file has no
            ``name`` of its own.
    """
    seen = [path.resolve()]
    given = values
    while isinstance(given, dict) and EXTENDS in given:
        if path.resolve() == seen[0] and "name" not in given:
            raise InputError(f"{path}: name: missing; a config that extends another needs a name of its own")
        base = _base(given[EXTENDS], path)
        if base.resolve() in seen:
            raise InputError(f"{path}: {EXTENDS}: {base} extends this config; remove one of the two keys")
        seen.append(base.resolve())
        path, given = base, read_yaml(base)
        if not isinstance(given, dict):
            raise InputError(f"{path}: a config is a mapping of keys to values, for example `name: quick`")
        values = _merge(given, {key: value for key, value in values.items() if key != EXTENDS})
    return values


def _base(named: Any, path: Path) -> Path:
    """The file that the key ``extends`` of the config in ``path`` names."""
    if not isinstance(named, str):
        raise InputError(f"{path}: {EXTENDS}: must be the name or the path of a config, got {named!r}")
    if Path(named).suffix in (".yaml", ".yml"):
        return path.parent / named
    found = find_config(named)
    if found is None:
        raise InputError(f"{path}: {EXTENDS}: no config {named!r}; {suggest(named, _names())}")
    return found


def _merge(base: dict[Any, Any], changes: dict[Any, Any]) -> dict[Any, Any]:
    merged = {**base, **changes}
    for key in base.keys() & changes.keys():
        if isinstance(base[key], dict) and isinstance(changes[key], dict):
            merged[key] = _merge(base[key], changes[key])
    return merged


def read_yaml(path: Path | str) -> Any:
    """What a YAML file holds.

    Raises:
        InputError: the file is missing, is no YAML or has a key twice.
    """
    try:
        # The loader is a safe one.
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError as error:
        folders = (Path(path).parent, Path("config"))
        files = {str(file) for folder in folders for file in folder.glob("[!.]*.yaml")}
        near = files if Path(path).suffix else _names()
        hint = f"; {suggest(str(path), sorted(near))}" if near else ""
        raise InputError(f"cannot read the config {path}: {error.strerror}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"cannot read the config {path}: {reason}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise InputError(f"{path}{place}: not valid YAML: {reason}") from None


def _describe(error: ValidationError, values: Any) -> str:
    """The first problem in one line, and how many more there are."""
    problems = error.errors(include_url=False, include_context=False)
    # A misspelt key explains a missing one, so it goes first.
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        renamed = RENAMED.get(key, RENAMED.get(name))
        if renamed:
            text = f"{key}: renamed; write {renamed}"
        else:
            text = f"{key}: no such key; {suggest(name, _fields(first['loc'][:-1]))}"
    elif first["type"] == "missing":
        text = f"{key}: is missing"
    else:
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "model_type":
            message = "should be a mapping of keys to values"
        named = message.split(":")[0]
        if first["type"] != "value_error":
            message = message[0].lower() + message[1:]
            if ", not " not in message:
                message += f", not {reprlib.repr(first['input'])}"
        elif key and named in message and named in _fields(first["loc"]):
            key, message = f"{key}.{named}", message.removeprefix(f"{named}: ")
        text = f"{key}: {message}" if key else message
    more = len(problems) - 1
    return text + (f" (and {more} more problem{'s' * (more > 1)})" if more else "")


def _fields(path: tuple[int | str, ...]) -> list[str]:
    section: Any = config_model()
    for part in path:
        is_section = isinstance(section, type) and issubclass(section, BaseModel)
        # Otherwise a mapping of names to sections.
        section = section.model_fields[part].annotation if is_section else get_args(section)[-1]
    return list(getattr(section, "model_fields", ()))
