"""Tools of every layer: random streams, progress bars, the cores of this machine, source files.

Every seed and generator that results depend on is here. The functions differ in how they turn names and
numbers into entropy. Changing one changes datasets or results, so new code uses :func:`generator`.

Source files are inputs of the workflow's rules: after an edit of one figure, only that figure is drawn
again.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The base install has none of the packages that the functions import.
if TYPE_CHECKING:
    import numpy as np
    from tqdm import tqdm

DELAY = 2.0
"""Seconds before a progress bar appears."""
UNTRACKED_PACKAGES = ("cadmus.cli", "cadmus.config")
UNTRACKED = (
    *UNTRACKED_PACKAGES,
    "cadmus.distribution",
    "cadmus.errors",
    "cadmus.store",
    # Imports all templates; a shard depends only on its own.
    "cadmus.templates",
)
"""Modules that results do not depend on; those of a config reach the workflow as parameters."""


def seed_of(*parts: int | str) -> int:
    """Return the 128-bit seed of a dataset shard, a fuzz chunk or a training: a hash of ``parts``."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:16])


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the 64-bit seed that shuffles the training programs of an epoch."""
    return seed_of(json.dumps({"epoch": epoch, "seed": seed, "split": "train"})) >> 64


def generator(seed: int, *parts: int | str) -> "np.random.Generator":
    """Return the generator of an experiment or of one step of sampling, named by ``parts``.

    Args:
        seed: at least 0.
        parts: names and numbers of at least 0; different names give independent streams.
    """
    import numpy as np

    entropy = [seed]
    for part in parts:
        entropy.extend(part.encode() if isinstance(part, str) else [part])
    return np.random.default_rng(entropy)


def progress(
    what: str, items: Iterable[Any] | None = None, total: int | None = None, unit: str = "it"
) -> "tqdm[Any]":
    """Return a bar over ``items``, or over ``total`` units counted by ``update``; shown on terminals only."""
    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, unit=unit, unit_scale=True, delay=DELAY, disable=None)


def cores() -> int:
    """Return the number of cores that this process may use, container quotas included."""
    import joblib

    return joblib.cpu_count()


def has_gpu() -> bool:
    """Return True if this machine has an NVIDIA GPU, without importing torch."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


@functools.cache
def sources_of(*modules: str) -> tuple[Path, ...]:
    """Return the source files of modules and of all Cadmus modules that they import, sorted.

    They include data files beside a module whose names it contains.
    """
    found: dict[str, Path] = {}
    data: set[Path] = set()
    pending = list(modules)
    while pending:
        module = pending.pop()
        path = _path(module)
        untracked = module in UNTRACKED or module.startswith(tuple(f"{name}." for name in UNTRACKED_PACKAGES))
        if module in found or untracked or path is None:
            continue
        found[module] = path
        imports, files = _references(path)
        pending.extend(imports)
        data |= files
    return tuple(sorted({*found.values(), *data}))


@functools.cache
def _path(module: str) -> Path | None:
    """Return the file of a module, or None for a name inside a module."""
    place = Path(__file__).parent.joinpath(*module.split(".")[1:])
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def _references(path: Path) -> tuple[list[str], set[Path]]:
    """Return the Cadmus names that a file imports anywhere, and the data files that it names."""
    text = path.read_text(encoding="utf-8")
    names = []
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    files = {file for file in path.parent.iterdir() if f'"{file.name}"' in text and file.is_file()}
    return [name for name in names if name.startswith("cadmus.")], files


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements; several times as fast as ``ast.walk``, which visits expressions as well."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending.extend(getattr(node, field, ()))
