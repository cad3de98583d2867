"""Which source files a result depends on.

The workflow names them as inputs, so that editing one figure draws that figure again and editing the
machine samples the dataset again.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

UNTRACKED_PACKAGES = ("cadmus.cli", "cadmus.config")
UNTRACKED = (
    *UNTRACKED_PACKAGES,
    "cadmus.errors",
    "cadmus.common.files",
    "cadmus.common.progress",
    # The list of templates; a shard depends on its own template.
    "cadmus.templates",
)
"""Modules that decide no result: what they say reaches the workflow as parameters."""


@functools.cache
def sources_of(*modules: str) -> tuple[Path, ...]:
    """The source files of modules of ``cadmus`` and of all modules of it that they import, sorted.

    A data file beside a module, which the module names, counts as well.
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
    """The file of a module; None when the name is something inside a module."""
    place = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def _references(path: Path) -> tuple[list[str], set[Path]]:
    """What a file imports of ``cadmus``, and the data files that it names."""
    text = path.read_text(encoding="utf-8")
    files = {file for file in path.parent.iterdir() if f'"{file.name}"' in text and file.is_file()}
    return _imports(ast.parse(text)), files


def _imports(tree: ast.Module) -> list[str]:
    """Names that may be modules of ``cadmus``, imported anywhere in a file."""
    names = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.startswith("cadmus.")]


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements; several times as fast as ``ast.walk``, which looks into expressions as well."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending.extend(getattr(node, field, ()))
