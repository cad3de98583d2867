"""Labs: folders of ``cadmus/labs`` that add to the core, which imports none of them.

A lab holds all that one finding needs beyond the core; without its folder, nothing of it is left. Its module
``settings`` declares what it adds, under names that this module collects from all labs:

=============== =========================================================================================
``TRAIN``       sections of the config below ``train``, by name, or its fields, as the ``model_fields`` of a
                section that declares them; ``EVALUATE`` alike
``OBJECTIVES``  functions of a run that tell whether it has an objective, by name, which is that of its module
``DECODERS``    modules by ``model.attention``, whose ``decoder`` returns a
                :class:`~cadmus.model.decoding.Decoder`
``EXPERIMENTS`` settings of its experiments, by name, which is that of its module
``SCORES``      suffixes of files for ``cadmus score``, each with the module of a :class:`Scoring`
=============== =========================================================================================

Files ``configs/NAME.yaml`` of a lab add to the shipped config of that name. ``docs/labs.md`` adds a lab.
"""

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from cadmus.errors import InputError

S = TypeVar("S", bound=BaseModel)

FOLDER = Path(__file__).parent / "labs"
NAMES = tuple(sorted(path.parent.name for path in FOLDER.glob("*/settings.py")))
"""Labs that are there."""


def full_name(lab: str, name: str) -> str:
    """Return the full name of a module of a lab."""
    return f"cadmus.labs.{lab}.{name}"


def module(lab: str, name: str) -> ModuleType:
    """Import a module of a lab."""
    try:
        return importlib.import_module(full_name(lab, name))
    except (ImportError, SyntaxError, AttributeError, NameError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InputError(f"{FOLDER / lab / name}.py: {problem}; mend it, or remove the folder") from error


class Scoring(NamedTuple):
    """``SCORING`` of a module in ``SCORES``."""

    read: Callable[[Path], Any]
    """Reads what is scored from a file."""
    score: Callable[..., Any]
    """Returns the scores as a table, of a model and what was read; ``programs``, ``directions``, ``seed`` and
    the ``dataset`` of the model are keywords."""
    columns: tuple[str, ...]
    """Columns with scores, besides ``variable`` and ``programs``."""
    variables: tuple[str, ...]
    """Variables that a whole entry has."""


@functools.cache
def declared(kind: str) -> dict[str, tuple[str, Any]]:
    """Return what all labs declare under a name: by its key, the lab and the value."""
    entries: dict[str, tuple[str, Any]] = {}
    for lab in NAMES:
        for key, value in getattr(module(lab, "settings"), kind, {}).items():
            if key in entries:
                problem = f"{kind}: {key!r} is also one of the lab {entries[key][0]}"
                raise InputError(f"{FOLDER / lab / 'settings.py'}: {problem}; rename one of them")
            entries[key] = lab, value
    return entries


def module_of(kind: str, name: str, package: str) -> str:
    """Return the module of an experiment or objective, which is in a lab or in a package of the core."""
    of_labs = declared(kind)
    return full_name(of_labs[name][0], name) if name in of_labs else f"{package}.{name}"


def extended(*kinds: str) -> Callable[[type[S]], type[S]]:
    """Return a class decorator that adds the sections and fields that labs declare under these names."""

    def extend(section: type[S]) -> type[S]:
        fields: dict[str, Any] = {}
        for kind in kinds:
            for name, (lab, of_lab) in declared(kind).items():
                if name in section.model_fields:
                    file = FOLDER / lab / "settings.py"
                    raise InputError(f"{file}: {kind}: {name!r} is one of the core; rename it")
                is_field = isinstance(of_lab, FieldInfo)
                fields[name] = (of_lab.annotation, of_lab) if is_field else (of_lab, of_lab())
        return create_model(
            section.__name__,
            __base__=section,
            __module__=section.__module__,
            __doc__=section.__doc__,
            **fields,
        )

    return extend
