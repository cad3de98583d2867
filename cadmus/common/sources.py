"""Source files that a result depends on.

They are inputs of the workflow's rules: after an edit of one figure, only that figure is drawn again.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

UNTRACKED_PACKAGES = ("cadmus.cli", "cadmus.config")
UNTRACKED = (
    *UNTRACKED_PACKAGES,
    "cadmus.distribution",
    "cadmus.errors",
    "cadmus.common.files",
    "cadmus.common.progress",
    # Imports all templates; a shard depends only on its own.
    "cadmus.templates",
)
"""Modules that results do not depend on; those of a config reach the workflow as parameters."""


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
    place = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
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
