"""Read YAML and JSON files into pydantic models, with errors of one line: `FILE: FIELD: problem; fix`."""

import functools
import importlib
import json
import reprlib
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from cadmus.config.experiments import Evaluate
from cadmus.config.schema import Config
from cadmus.distribution import DATA
from cadmus.errors import InputError, naming, reading, suggest

T = TypeVar("T")

CONFIGS = DATA / "config"
"""Shipped configs."""
TABLES = CONFIGS / "tables"
"""Shipped tables that are not configs: devices, language models."""
EXTENDS = "extends"
"""Key that names the config to extend."""
LARGEST_INTEGER = 10**300
"""Largest magnitude of an integer in a YAML file: a float holds it, and Python prints it."""
LONGEST_SHOWN = 200
"""Characters of a wrong value that an error shows."""
MOST_NODES = 1_000_000
"""Scalars, lists and mappings in a YAML file, aliases expanded."""
RENAMED = {
    "evaluate.lens_programs": "evaluate.lens.programs",
    "evaluate.patch_programs": "evaluate.patch.programs",
    "evaluate.programs": "evaluate.completions.programs",
    "evaluate.snapshot_programs": "evaluate.curve.programs",
    "held_out": "ood",
    "held_out_programs": "ood_programs",
    "held_out_share": "eval_fraction",
    "uniform_share": "uniform_fraction",
    "warmup_share": "warmup_fraction",
}
"""Fields of earlier versions, by name or path, and their current names."""
MESSAGES = {
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt:,.10g}",
    "greater_than_equal": "must be at least {ge:,.10g}",
    "int_type": "must be an integer",
    "less_than": "must be below {lt:,.10g}",
    "less_than_equal": "must be at most {le:,.10g}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_type": "must be a mapping",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "length must be at least {min_length}",
    "string_type": "must be text",
    "too_long": "length must be at most {max_length}",
    "too_short": "length must be at least {min_length}",
}
"""Our wording of pydantic's error types."""


@functools.cache
def config_model() -> type[Config]:
    """Return the model of a config, with a section of ``evaluate`` for each registered experiment."""
    # Imported by name, as the experiments import the config.
    registry = importlib.import_module("cadmus.experiments")
    sections: dict[str, Any] = {}
    for name in registry.NAMES:
        settings = registry.get(name).settings
        sections[name] = (settings, settings())
    evaluate = create_model("Evaluate", __base__=Evaluate, __doc__=Evaluate.__doc__, **sections)
    model = create_model("Config", __base__=Config, __doc__=Config.__doc__, evaluate=(evaluate, evaluate()))
    # Pickle cannot find a class that is made here by its name.
    setattr(model, "__reduce__", _reduce)  # noqa: B010
    return model


def _reduce(run: Config) -> tuple[Any, ...]:
    return parse_config, (run.model_dump(), "pickle")


def load_config(path: Path | str) -> Config:
    """Read a config file and those that it extends.

    Raises:
        InputError: a file is missing, not YAML, invalid, or describes the runs of a study.
    """
    values = extended(read_yaml(path), Path(path))
    if isinstance(values, dict) and "study" in values:
        raise InputError(f"{path}: study: describes several runs; `cadmus study runs {path}` lists them")
    return parse_config(values, str(path))


def parse_config(values: Any, source: str) -> Config:
    """Validate the values of a config and fill in the defaults.

    Args:
        values: as read from YAML or given by a workflow.
        source: where they come from, for the error.

    Raises:
        InputError: a value is invalid.
    """
    return validate(values, config_model(), source)


def as_yaml(values: Config | dict[str, Any]) -> str:
    """Return a config, or the values of one, as a YAML file."""
    values = values.model_dump() if isinstance(values, Config) else values
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None)


def read_model(path: Path | str, model: type[T]) -> T:
    """Read a YAML file into a pydantic model, or a type such as ``dict[str, Model]``.

    Raises:
        InputError: the file is missing, not YAML, or invalid.
    """
    if Path(path).suffix == ".tsv":
        raise InputError(f"{path}: tab-separated tables are not supported; write YAML as in config/tables/")
    return validate(read_yaml(path), model, str(path))


def read_json(path: Path | str, model: type[T], fix: str) -> T:
    """Read a JSON file that Cadmus wrote into a pydantic model, or a type such as a TypedDict.

    Args:
        path: the file.
        model: of its contents.
        fix: ends the message, such as "write it again".

    Raises:
        InputError: the file is missing, not JSON, or invalid.
    """
    with reading(path, fix):
        content = Path(path).read_bytes()
    return parse_json(content, model, str(path), fix)


def parse_json(content: bytes, model: type[T], source: str, fix: str) -> T:
    """Parse JSON from ``source``, such as the metadata of a Parquet file; otherwise as :func:`read_json`."""
    with reading(source, fix):
        try:
            values = json.loads(content.decode("utf-8"))
        except json.JSONDecodeError as error:
            raise InputError(f"{source}: not valid JSON ({error}); {fix}") from None
        # JSON can escape half of a surrogate pair, which cannot be printed.
        json.dumps(values, ensure_ascii=False).encode("utf-8")
    return validate(values, model, source, fix)


def validate(values: Any, model: type[T], source: str, fix: str = "") -> T:
    """Validate values against a pydantic model, or a type such as ``dict[str, Model]``.

    Raises:
        InputError: the first problem, beginning with ``source`` and the field and ending with ``fix``.
    """
    try:
        return TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        ending = f"; {fix}" if fix else ""
        raise InputError(f"{source}: {_describe(error, model)}{ending}") from None


def with_current_names(values: Any) -> Any:
    """Rename the fields of a config that an earlier version wrote."""
    if not isinstance(values, dict):
        return values
    return {RENAMED.get(key, key): with_current_names(value) for key, value in values.items()}


def find_config(name: str) -> Path | None:
    """Return the file of a shipped config, such as ``quick``; None if there is none."""
    return CONFIGS / f"{name}.yaml" if name in _names() else None


def _names() -> list[str]:
    return sorted(file.stem for file in CONFIGS.glob("*.yaml"))


def extended(values: Any, path: Path) -> Any:
    """Merge values into the config that their key ``extends`` names.

    Mappings merge key by key; any other value replaces that of the extended config.

    Args:
        values: as read from ``path``.
        path: the config file; a path in ``extends`` is relative to its folder.

    Raises:
        InputError: a config is missing, invalid or extended in a circle, or ``values`` has no ``name``.
    """
    seen = [path.resolve()]
    given = values
    while isinstance(given, dict) and EXTENDS in given:
        if path.resolve() == seen[0] and "name" not in given:
            raise InputError(f"{path}: name: is missing; a config that extends another needs its own name")
        base = _base(given[EXTENDS], path)
        if base.resolve() in seen:
            raise InputError(f"{path}: {EXTENDS}: {base} extends this config; remove one of the two keys")
        seen.append(base.resolve())
        with naming(f"{path}: {EXTENDS}"):
            given = read_yaml(base)
        path = base
        if not isinstance(given, dict):
            raise InputError(f"{path}: must be a mapping, got {_shown(given)}")
        values = merged(given, {key: value for key, value in values.items() if key != EXTENDS})
    return values


def _base(named: Any, path: Path) -> Path:
    """Return the file that ``extends: named`` in ``path`` refers to."""
    if not isinstance(named, str):
        raise InputError(f"{path}: {EXTENDS}: must be the name or the path of a config, got {named!r}")
    if Path(named).suffix in (".yaml", ".yml"):
        return path.parent / named
    found = find_config(named)
    if found is None:
        raise InputError(f"{path}: {EXTENDS}: no config {_shown(named)}; {suggest(named, _names())}")
    return found


def merged(base: dict[Any, Any], changes: dict[Any, Any]) -> dict[Any, Any]:
    """Return ``base`` with ``changes``; mappings merge key by key, any other value is replaced."""
    result = {**base, **changes}
    for key in base.keys() & changes.keys():
        if isinstance(base[key], dict) and isinstance(changes[key], dict):
            result[key] = merged(base[key], changes[key])
    return result


class _Loader(yaml.SafeLoader):
    """YAML that refuses duplicate keys, lists and mappings as keys, and values without bound."""

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if node is not None:
            _count_nodes(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    problem="a list or a mapping as a key", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"duplicate key {key.value!r}", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    value: int = loader.construct_yaml_int(node)
    if abs(value) > LARGEST_INTEGER:
        raise yaml.constructor.ConstructorError(problem="an integer too large", problem_mark=node.start_mark)
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def _count_nodes(node: Any, counted: dict[int, int | None]) -> int:
    """Return the number of nodes in a node, aliases expanded; ``counted`` has those below, by id.

    Raises:
        ConstructorError: there are more than :data:`MOST_NODES`, or the node contains itself.
    """
    if id(node) not in counted:
        counted[id(node)] = None
        below = [] if isinstance(node, yaml.ScalarNode) else node.value
        pairs = isinstance(node, yaml.MappingNode)
        parts = [part for pair in below for part in pair] if pairs else below
        counted[id(node)] = 1 + sum(_count_nodes(part, counted) for part in parts)
    count = counted[id(node)]
    if count is None or count > MOST_NODES:
        problem = "an alias inside of what it names" if count is None else f"more than {MOST_NODES:,} values"
        raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)
    return count


def read_yaml(path: Path | str) -> Any:
    """Read a YAML file.

    Raises:
        InputError: the file is missing, not YAML, or has a duplicate key.
    """
    with reading(path):
        try:
            return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
        except FileNotFoundError as error:
            folders = (Path(path).parent, Path("config"))
            files = {str(file) for folder in folders for file in folder.glob("[!.]*.yaml")}
            near = files if Path(path).suffix else _names()
            hint = f"; {suggest(str(path), sorted(near))}" if near else ""
            raise InputError(f"cannot read {path}: {error.strerror}{hint}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f", line {mark.line + 1}" if mark else ""
            reason = getattr(error, "problem", None) or getattr(error, "reason", error)
            raise InputError(f"{path}{place}: not valid YAML: {reason}") from None


def _describe(error: ValidationError, model: Any) -> str:
    """Return the first problem as `FIELD: problem; fix`, and how many more there are."""
    problems = error.errors(include_url=False)
    # A misspelt key explains a missing one, so it goes first.
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    path, kind = first["loc"], first["type"]
    # The problem may be in a key.
    key = ".".join(str(part) for part in path if part != "[key]")
    if kind == "extra_forbidden":
        name = str(path[-1])
        hint = f"; {suggest(name, _fields(model, path[:-1]))}"
        renamed = RENAMED.get(key, RENAMED.get(name))
        message = f"renamed; write {renamed}" if renamed else f"no such key{hint}"
    elif kind == "missing":
        message = "is missing"
    elif kind == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        field, _, rest = message.partition(": ")
        if key and field in _fields(model, path):
            key, message = f"{key}.{field}", rest
    else:
        wording = MESSAGES.get(kind)
        message = wording.format(**first.get("ctx", {})) if wording else first["msg"]
        message += f", got {_shown(first['input'])}"
    text = f"{key}: {message}" if key else message
    more = len(problems) - 1
    return text + (f" (and {more} more problem{'s' * (more > 1)})" if more else "")


def _shown(value: Any) -> str:
    text = reprlib.repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _fields(model: Any, path: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields at ``path`` in ``model``; none where no section is there."""
    for part in path:
        is_section = isinstance(model, type) and issubclass(model, BaseModel)
        # Otherwise a mapping of names to sections, or a list.
        model = model.model_fields[part].annotation if is_section else (get_args(model) or [None])[-1]
    return list(getattr(model, "model_fields", ()))
