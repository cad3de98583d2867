"""The whole of a config, and its YAML files: read into pydantic models, with errors of one line.

An error is `FILE: FIELD: problem; fix`. ``python -m dev.docs config`` writes the JSON schema of a config and
``config/README.md`` from the docstrings of the sections.
"""

import hashlib
import json
import os
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator

from cadmus import plugins
from cadmus.config.dataset import FIRST_FIELDS, TEMPLATES, Dataset
from cadmus.config.evaluation import Evaluate
from cadmus.config.fields import Count, RunName, Section, what_counts
from cadmus.config.model import Model
from cadmus.config.training import Train
from cadmus.distribution import DATA
from cadmus.errors import InputError, naming, reading, suggest
from cadmus.tables import counted

T = TypeVar("T")

CONFIGS = DATA / "config"
"""Shipped configs."""
TABLES = CONFIGS / "tables"
"""Shipped tables that are not configs: devices, times."""
EXTENDS = "extends"
"""Key that names the config to extend."""
RENAMED = {
    "evaluate.probe.inverse_regularisation": "inverse_regularization",
    "train.interchange": "interchange_training",
    "train.order": "curriculum.order",
    "train.order_seed": "curriculum.seed",
    "train.label_only.share": "fraction",
    "train.state_labels.magnitude": "top_number",
    "train.verdict": "reinforcement",
}
"""Earlier names of fields, and their names now."""
REMOVED: dict[str, tuple[Any, str, str]] = {
    "evaluate.circuit": ({"programs": 50}, "experiment circuit", "234faddd"),
    "evaluate.decoding": ({"order": "confidence", "tokens": 1}, "other orders of unmasking", "97f6e2c2"),
    "evaluate.infilling": ({"holes": [1, 2, 4, 8]}, "experiment infilling", "c0a963c0"),
    "evaluate.loops": (None, "looped models", "cd8ba462"),
    "evaluate.unmasking": ({"programs": 500}, "experiment unmasking", "6015bb76"),
    "model.loops": (1, "looped models", "cd8ba462"),
    "study.law_flops": ([], "scaling laws", "cae5ea1c"),
    "study.law_minutes": ([], "laws by minutes", "cd8ba462"),
    "curriculum.seed": (0, "random orders", "cd8ba462"),
    "study.repeat": ({}, "copies of variants", "cd8ba462"),
    "state_labels.elements": (0, "labels of elements", "cd8ba462"),
    "state_labels.sum": (0, "labels of sums", "cd8ba462"),
    "state_labels.call": (0, "labels of calls", "cd8ba462"),
    "train.state_layer": (None, "other blocks for heads", "cd8ba462"),
    "train.pair_layer": (None, "other blocks for heads", "cd8ba462"),
    "train.subset": ({"fraction": 1.0, "templates": None}, "subsets of the training programs", "cd8ba462"),
    "templates.trace": ({"train": 0}, "template trace", "cd8ba462"),
    "reinforcement.reward": ("solved", "reward of each token", "cd8ba462"),
    "model.mixer": ("attention", "modules in place of attention", "17f91f0"),
    "interchange_training.exchange": (True, "shifts without exchanges", "03c97771"),
    "interchange_training.donors": ("all", "other donors of exchanges", "03c97771"),
    "interchange_training.directions": ("labels", "exchanges of random directions", "03c97771"),
    "interchange_training.start": (0.0, "exchanges in a part of the steps", "03c97771"),
    "interchange_training.stop": (1.0, "exchanges in a part of the steps", "03c97771"),
    "interchange_training.variable": ("comparison", "exchange before other answers", "97f6e2c2"),
    "label_only.values": ([-60, 60], "other values of label-only programs", "97f6e2c2"),
    "train.row_length": (None, "other lengths of packed rows", "97f6e2c2"),
    "train.deepspeed": ({}, "settings of DeepSpeed except train.zero_stage", "03c97771"),
    "train.keep_checkpoints": (2, "other number of checkpoints", "97f6e2c2"),
    "reinforcement.temperature": (1.0, "other temperatures of reinforcement", "97f6e2c2"),
    "dataset.only": (None, "list of templates (set dataset.templates.NAME.train: 0 for others)", "c0a963c0"),
}
"""Fields that are gone: the value of an unused one, what it was, and a commit that has it.

Of a section, the value has the fields that tell; an empty one had none.
"""
LONGEST_INTEGER = 100
"""Digits of an integer in a YAML file."""


class Config(Section):
    """One run: its name, scale and data."""

    name: RunName
    """name of the run; results are in results/<name>"""
    seed: Count = 1
    """seed of all random choices"""
    dataset: Dataset
    model: Model
    train: Train
    evaluate: Evaluate = Evaluate()

    @model_validator(mode="after")
    def _check(self) -> "Config":
        if not any(getattr(self.dataset.templates, name).train for name in TEMPLATES):
            raise ValueError("dataset.templates: no template has train programs; set train of at least one")
        if self.evaluate.split not in self.dataset.splits:
            raise ValueError("evaluate.split: ood needs a rule in dataset.ood")
        for parent in (self.model, self.train, self.evaluate):
            for _, section in parent:
                if isinstance(section, Section):
                    section.check(self)
        if self.model.attention == "full" and self.objectives == self.train.objectives(self.model):
            raise ValueError(
                "model.attention: full needs an objective of a lab that is not there; set causal"
            )
        return self

    @property
    def objectives(self) -> list[str]:
        """Names of the objectives of the training: those of the core, then those of labs."""
        of_labs = plugins.declared("OBJECTIVES").items()
        return [*self.train.objectives(self.model), *(name for name, (_, has) in of_labs if has(self))]

    @property
    def row_length(self) -> int:
        """Tokens of a packed row of the training: the longest program, rounded up to a multiple of 8."""
        return -(-self.dataset.max_length // 8) * 8

    def dataset_digest(self) -> str:
        """Return 16 hexadecimal digits of everything that decides which programs are sampled."""
        always = FIRST_FIELDS | {"ood", "ood_programs"} if self.dataset.ood else FIRST_FIELDS
        return digest({"seed": self.seed, "dataset": what_counts(self.dataset, always)})


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits of the hash of a JSON-serializable value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def load_config(path: Path | str, changes: dict[str, Any] | None = None) -> Config:
    """Read a config, a file or the name of a shipped one; ``changes`` are as for :func:`changed`."""
    path = find_config(path)
    values = read_values(path, changes)
    if isinstance(values, dict) and "study" in values:
        raise InputError(f"{path}: study: describes several runs; `cadmus study runs {path}` lists them")
    return parse_config(values, named_source(path, changes))


def read_values(path: Path | str, changes: dict[str, Any] | None = None) -> Any:
    """Return the values of a config file and those that it extends, without defaults."""
    return changed(extended(read_yaml(path), Path(path)), changes or {})


def named_source(path: Path | str, changes: dict[str, Any] | None) -> str:
    """Return what an error names: the file, and that ``changes`` are not in it."""
    return f"{path} with --set" if changes else str(path)


def parse_config(values: Any, source: str) -> Config:
    """Validate the values of a config, which come from ``source``, and fill in the defaults."""
    return validate(values, Config, source)


def is_same_config(path: Path, text: str) -> bool:
    """Return True if the config in a file counts the same as ``text``, whose fields are all there."""
    if not path.is_file():
        return False
    try:
        earlier, now = load_config(path), parse_config(extended(yaml.safe_load(text), path), str(path))
    except InputError:
        # It has a field that is no longer there.
        return False
    return what_counts(earlier) == what_counts(now)


def as_yaml(values: dict[str, Any]) -> str:
    """Return the values of a config as a YAML file."""
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None)


def read_model(path: Path | str, model: type[T]) -> T:
    """Read a YAML file into a pydantic model, or a type such as ``dict[str, Model]``."""
    return validate(read_yaml(path), model, str(path))


def validate(values: Any, model: type[T], source: str, fix: str | None = None) -> T:
    """Validate values against a pydantic model, or a type such as ``dict[str, Model]``.

    ``fix`` ends the error, if the problem alone does not tell it. Unused fields of :data:`REMOVED` are left
    out, because files of earlier versions have them.
    """
    # Values may be nested too deeply.
    with reading(source):
        values = _without_removed(values, source)
    try:
        return TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        raise InputError(f"{source}: {_describe(error, model)}{f'; {fix}' if fix else ''}") from None


def _without_removed(values: Any, source: str, section: str = "") -> Any:
    """Return values without fields of :data:`REMOVED`; one that is in use is an error."""
    if not isinstance(values, dict):
        return values
    kept = {}
    for key, value in values.items():
        field = f"{section}.{key}"
        # The config may be a part of a study or of a model's metadata.
        name = next((name for name in REMOVED if field.endswith(f".{name}")), None)
        if name is None:
            kept[key] = _without_removed(value, source, field)
            continue
        unused, meaning, commit = REMOVED[name]
        if isinstance(unused, dict) and isinstance(value, dict) and unused:
            value = {key: value.get(key, default) for key, default in unused.items()}
        if value != unused:
            raise InputError(f"{source}: {field[1:]}: this version has no {meaning}; use commit {commit}")
    return kept


def find_config(config: Path | str, folder: Path | None = None) -> Path:
    """Return the file of a config: a path, relative to ``folder``, or the name of a shipped one."""
    name, path = str(config), Path(folder or "", config)
    # A directory may have the name of a config, such as that of its results.
    if path.suffix or (os.path.exists(path) and not os.path.isdir(path)):
        return path
    names = sorted(file.stem for file in CONFIGS.glob("*.yaml"))
    if name not in names:
        raise InputError(f"no config {reprlib.repr(name)}; {suggest(name, names)}")
    return CONFIGS / f"{name}.yaml"


def extended(values: Any, path: Path, above: tuple[Path, ...] = ()) -> Any:
    """Merge the values of the file ``path`` into the config that their key ``extends`` names.

    A path in ``extends`` is relative to the folder of ``path``; the files ``above`` extend this one. To a
    shipped config, labs add their parts.
    """
    if path.parent.resolve() == CONFIGS.resolve() and isinstance(values, dict):
        for part in sorted(plugins.FOLDER.glob(f"*/configs/{path.name}")):
            values = merged(values, read_yaml(part))
    if not isinstance(values, dict) or EXTENDS not in values:
        return values
    if not above and "name" not in values:
        raise InputError(f"{path}: name: is missing; a config that extends another needs its own name")
    name = values[EXTENDS]
    if not isinstance(name, str):
        raise InputError(f"{path}: {EXTENDS}: must be the name or the path of a config, got {name!r}")
    with naming(f"{path}: {EXTENDS}"):
        base = find_config(name, path.parent)
        base_values = read_yaml(base)
    above = (*above, path.resolve())
    if base.resolve() in above:
        raise InputError(f"{path}: {EXTENDS}: {base} extends this config; remove one of the two keys")
    if not isinstance(base_values, dict):
        raise InputError(f"{base}: must be a mapping, got {reprlib.repr(base_values)}")
    changes = {key: value for key, value in values.items() if key != EXTENDS}
    return merged(extended(base_values, base, above), changes)


def merged(base: dict[Any, Any], changes: dict[Any, Any]) -> dict[Any, Any]:
    """Return ``base`` with ``changes``; mappings merge key by key, any other value is replaced."""
    result = {**base, **changes}
    for key in base.keys() & changes.keys():
        if isinstance(base[key], dict) and isinstance(changes[key], dict):
            result[key] = merged(base[key], changes[key])
    return result


def changed(values: Any, changes: dict[str, Any]) -> Any:
    """Return the values of a config with other values of some fields, such as ``{"train.steps": 100}``."""
    # A file may hold no mapping; whoever validates it says so.
    if not isinstance(values, dict):
        return values
    for field, value in changes.items():
        for key in reversed(field.split(".")):
            value = {key: value}
        values = merged(values, value)
    return values


def read_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Return changes that are written FIELD=VALUE, with values in YAML."""
    changes = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not (field and equals):
            raise InputError(f"--set {text}: must be FIELD=VALUE, such as train.steps=100")
        with reading(f"--set {text}"):
            try:
                changes[field] = yaml.load(value, _Loader)
            except yaml.YAMLError:
                raise InputError(f"--set {text}: the value is not valid YAML") from None
    return changes


class _Loader(yaml.SafeLoader):
    """YAML without duplicate keys, aliases that could expand to any size, and unprintable values."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias and not isinstance(node, yaml.ScalarNode):
            raise _refusal("an alias of a list or a mapping; use `extends`, or write it again", node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        # The base class refuses keys that are lists or mappings.
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise _refusal(f"duplicate key {key.value!r}", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        if node.tag == "tag:yaml.org,2002:int" and len(node.value) > LONGEST_INTEGER:
            raise _refusal(f"an integer of more than {LONGEST_INTEGER} digits", node)
        if ":" in node.value and node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
            raise _refusal("a number with colons, which YAML reads in base 60; write it in decimal", node)
        # The parser refuses them as they are, but not the escapes of YAML.
        if re.search("[\0-\x08\x0b-\x1f\x7f\ud800-\udfff]", node.value):
            raise _refusal("a control character, or half of a surrogate pair, in a text", node)
        return super().construct_scalar(node)


def _refusal(problem: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


def read_yaml(path: Path | str) -> Any:
    """Read a YAML file."""
    with reading(path):
        try:
            return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark else ""
            reason = getattr(error, "problem", None) or getattr(error, "reason", error)
            raise InputError(f"{path}{line}: not valid YAML: {reason}") from None


def _describe(error: ValidationError, model: Any) -> str:
    """Return the first problem as `FIELD: problem; fix`, and how many more there are."""
    # A misspelt key explains a missing one, so it goes first.
    problems = sorted(error.errors(include_url=False), key=lambda item: item["type"] != "extra_forbidden")
    kind, path, message = problems[0]["type"], problems[0]["loc"], problems[0]["msg"]
    # The problem may be in a key.
    field = ".".join(str(part) for part in path if part != "[key]")
    if kind == "extra_forbidden":
        # The config may be a part of a study or of a model's metadata.
        renamed = next((new for old, new in RENAMED.items() if f".{field}".endswith(f".{old}")), None)
        hint = f"it is called {renamed} now" if renamed else suggest(str(path[-1]), _fields(model, path[:-1]))
        message = f"no such key; {hint}"
    elif kind == "missing":
        message = "is missing"
    elif kind == "value_error":
        # A check of several fields begins with the name of one.
        message = message.removeprefix("Value error, ")
        if name := re.match(r"([a-z_.]+): ", message):
            field = ".".join(filter(None, [field, name[1]]))
            message = message[name.end() :]
    else:
        if kind in ("dict_type", "model_type"):
            message = "must be a mapping"
        # pydantic writes: Input should be a valid string.
        requirement = re.sub("^[A-Z][a-z]+ should ", "must ", message)
        message = f"{requirement}, got {reprlib.repr(problems[0]['input'])}"
    text = f"{field}: {message}" if field else message
    more = len(problems) - 1
    return f"{text} (and {counted(more, 'more problem')})" if more else text


def _fields(model: Any, path: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields at ``path`` in ``model``."""
    if get_origin(model) in (Annotated, Union, UnionType):
        # A type and its checks, or a section or null.
        return _fields(get_args(model)[0], path)
    if not path:
        return list(model.model_fields)
    is_section = isinstance(model, type) and issubclass(model, BaseModel)
    # Otherwise a mapping of names to sections, or a list.
    inner = model.model_fields[path[0]].annotation if is_section else get_args(model)[-1]
    return _fields(inner, path[1:])
