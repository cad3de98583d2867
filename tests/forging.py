"""Forge sealed files: change what they hold and seal them again, as anyone can.

The seal has no key. It finds damage, not forgery, so a reader can trust no value.
"""

import hashlib
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cadmus.store import HEADER

MODULE, TRACE = "forged_module", "TRACE"
"""A module that :func:`plant` writes, and the file that it leaves if it is imported."""
WRONG = [{"../up": None}]
"""A value that no field has."""
DEEP = 100_000
"""Brackets of a nested list."""


def plant(directory: Path) -> None:
    """Write a module to a directory that leaves a trace if it is imported."""
    (directory / f"{MODULE}.py").write_text(f"open({TRACE!r}, 'w').close()\n")


def forgeries(path: Path) -> dict[str, bytes]:
    """Return contents to put in the place of a file: none of its kind, and its own with a wrong field."""
    data, seal = path.read_bytes(), b'{"seal": "' + b"0" * 64 + b'"}'
    contents = {
        "empty": b"",
        "truncated": data[: len(data) // 2],
        "a list": b"[" + seal + b"]",
        "a header that is a list": b'{"cadmus": [' + seal + b"]}",
        "deep": b'{"cadmus": ' + b"[" * DEEP + seal + b"]" * DEEP + b"}",
        "not UTF-8": b'{"a": "\xff", "cadmus": ' + seal + b"}",
    }
    if path.suffix in (".json", ".jsonl"):
        trees = [json.loads(line) for line in (data.splitlines() if path.suffix == ".jsonl" else [data])]
        for key in trees[0]:
            lines = [json.dumps({**tree, key: WRONG}) for tree in trees]
            contents[key] = "\n".join([*lines, ""]).encode()
    elif path.suffix == ".parquet":
        contents |= _tables(path)
    return contents


def _tables(path: Path) -> dict[str, bytes]:
    """Return Parquet files with one row, a wrong column or wrong metadata."""
    metadata = {key: of for key, of in pq.read_metadata(path).metadata.items() if key != b"ARROW:schema"}
    table = pq.read_table(path).replace_schema_metadata(metadata)
    changed, wrong = {"one row": table.slice(0, 1)}, pa.array([[1.0]] * len(table))
    changed |= {name: table.set_column(n, name, wrong) for n, name in enumerate(table.column_names)}
    changed |= {f"{key}": table.replace_schema_metadata({**metadata, key: b"[1]"}) for key in metadata}
    files = {name: BytesIO() for name in changed}
    for name, file in files.items():
        pq.write_table(changed[name], file)
    return {name: file.getvalue() for name, file in files.items()}


def seal_all(path: Path) -> None:
    """Seal a file again or, if its digest is in the JSON file of its directory, that file."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    meta, manifest = path.parent / "meta.json", path.parents[2] / "manifest.json"
    if path != meta and meta.is_file():
        edit(meta, lambda tree: tree[HEADER]["files"].update({path.name: digest}))
    elif manifest.is_file():
        name = path.relative_to(manifest.parent).as_posix()

        def update(tree: Any) -> None:
            (entry,) = (each for each in tree["files"] if each["file"] == name)
            entry["sha256"] = digest

        edit(manifest, update)
    else:
        seal(path)


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the contents of a sealed JSON file and seal it again."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    change(tree)
    path.write_text(json.dumps(tree, indent=1), encoding="utf-8")
    seal(path)


def seal(path: Path) -> None:
    """Write the seal of a file, if it has a place for one."""
    data, mark = path.read_bytes(), b'"seal": "'
    start = data.rfind(mark) + len(mark)
    if mark not in data:
        return
    blank = data[:start] + b"0" * 64 + data[start + 64 :]
    seal = hashlib.sha256(blank).hexdigest().encode()
    path.write_bytes(blank[:start] + seal + blank[start + 64 :])
