"""Tools of every layer: random streams, progress bars, the cores of this machine, source files.

Every seed and generator that results depend on is here. The functions differ in how they turn names and
numbers into entropy. Changing one changes datasets or results, so new code uses :func:`generator`.
"""

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

DELAY = 2.0
"""Seconds before a progress bar appears."""
_UNTRACKED = re.compile(
    r"cadmus\.((cli|config)(\..*)?|labs\.\w+\.settings|caches|distribution|errors|plugins|store|templates)"
)
"""Modules that results do not depend on. Configs are parameters of the workflow, and a shard depends on its
own template only."""


def seed_of(*parts: int | str) -> int:
    """Return the 128-bit seed of a dataset shard, a fuzz chunk or a training: a hash of ``parts``."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:16])


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the 64-bit seed that shuffles the training programs in an epoch."""
    return seed_of(json.dumps({"epoch": epoch, "seed": seed, "split": "train"})) >> 64


def generator(seed: int, *parts: int | str) -> np.random.Generator:
    """Return the generator of an experiment or of one step of sampling, named by ``parts``.

    Numbers are at least 0; different names give independent streams.
    """
    entropy = [seed]
    for part in parts:
        entropy.extend(part.encode() if isinstance(part, str) else [part])
    return np.random.default_rng(entropy)


def progress(
    what: str, items: Iterable[Any] | None = None, total: int | None = None, unit: str = "it"
) -> "tqdm[Any]":
    """Return a bar over ``items``, or over ``total`` units counted by ``update``; shown on terminals only."""
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

    They include data files next to a module whose names it contains. The workflow compares
    their digest, so that after an edit of one figure only that figure is drawn again.
    """
    sources: dict[str, set[Path]] = {}
    pending = list(modules)
    while pending:
        module = pending.pop()
        stem = Path(__file__).parent.joinpath(*module.split(".")[1:])
        candidates = (stem.with_suffix(".py"), stem / "__init__.py")
        path = next((path for path in candidates if path.is_file()), None)
        # A name inside a module has no file.
        if path and module not in sources and not _UNTRACKED.fullmatch(module):
            imports, files = _references(path)
            sources[module] = {path, *files}
            pending += imports
    return tuple(sorted(set().union(*sources.values())))


@functools.cache
def _references(path: Path) -> tuple[list[str], list[Path]]:
    """Return the Cadmus names that a file imports anywhere, and the data files that it names."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    files = [file for file in path.parent.iterdir() if f'"{file.name}"' in text and file.is_file()]
    return [name for name in names if name.startswith("cadmus.")], files
