"""Forge sealed files: change what they hold and seal them again, as anyone can.

The seal has no key. It finds damage, not lies, so every value behind it may be anything.
"""

import hashlib
import json
import math
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

from cadmus.store import HEADER

DEEP = 100_000
"""Brackets of a nested list."""
MODULE, TRACE = "forged_module", "TRACE"
"""A module that :func:`plant` writes, and the file that it leaves if it is imported."""
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 3, 10**9, 10**400, 0.5, -0.5, 1e300, math.nan, math.inf),
    *("", "text", "1", "../up", "/etc/passwd", "<script>alert(1)</script>", "é\u202e\x1b[31m", "a" * 10_000),
    *([], [1], [None], {}, {"a": {"b": 1}}, f"{MODULE}:Class", "os:getpgid", "builtins:range"),
)
"""What replaces a value in JSON."""
CELLS: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 999, 10**9, 2**63 - 1, 0.5, -0.5, 1e300, math.nan, math.inf),
    *("", "text", "<script>", "é\u202e\x1b[31m", "+" * 100_000, [1.0]),
)
"""What replaces the values of a column."""


def plant(directory: Path) -> None:
    """Write a module to a directory that leaves a trace if it is imported."""
    (directory / f"{MODULE}.py").write_text(f"open({TRACE!r}, 'w').close()\n")


def forge(path: Path, rng: random.Random) -> str:
    """Change a sealed file, seal it again, and so its directory; return a description."""
    if rng.random() < 0.1:
        return _replace_file(path, rng)
    return _FORGERIES[path.suffix](path, rng)


def _replace_file(path: Path, rng: random.Random) -> str:
    """Put something else in the place of a file, with a seal of its own if it has the place of one."""
    flipped = bytearray(path.read_bytes())
    for _ in range(3):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    seal = b'{"seal": "' + b"0" * 64 + b'"}'
    contents = {
        "a list": b"[" + seal + b"]",
        "a header that is a list": b'{"cadmus": [' + seal + b"]}",
        "deep": b'{"cadmus": ' + b"[" * DEEP + seal + b"]" * DEEP + b"}",
        "not UTF-8": b'{"a": "\xff", "cadmus": ' + seal + b"}",
        "flipped bits": bytes(flipped),
    }
    kind = rng.choice([*contents])
    path.write_bytes(contents[kind])
    seal_all(path)
    return kind


def _forge_json(path: Path, rng: random.Random) -> str:
    tree = json.loads(path.read_text(encoding="utf-8"))
    places: list[tuple[Any, Any]] = [(tree, key) for key in tree]
    for parent, key in places:
        inner = parent[key]
        if isinstance(inner, dict | list) and inner:
            places += [(inner, below) for below in (inner if isinstance(inner, dict) else range(len(inner)))]
    # Keys that are deep in a large section are as frequent as those above.
    depth = rng.random()
    parent, key = rng.choice(places[: max(8, int(depth * len(places)))])
    done = _change_key(parent, key, rng)
    path.write_text(json.dumps(tree, indent=1, ensure_ascii=True), encoding="utf-8")
    seal_all(path)
    return f"{key!r} {done}"


def _change_key(parent: Any, key: Any, rng: random.Random) -> str:
    if rng.random() < 0.25:
        del parent[key]
        return "deleted"
    parent[key] = value = rng.choice(VALUES)
    return f"replaced by {ascii(value)[:60]}"


def _forge_lines(path: Path, rng: random.Random) -> str:
    """Change a key of one or all lines of metrics, which may then be without a seal."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if rng.random() < 0.5:
        lines[0].pop(HEADER)
    key, seed = rng.choice([*lines[0]]), rng.random()
    changed = rng.choice([lines, lines[:1]])
    # The same change in each of them.
    (done, *_) = [_change_key(line, key, random.Random(seed)) for line in changed if key in line]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    seal_all(path)
    return f"{key!r} {done} in {len(changed)} lines"


def _forge_table(path: Path, rng: random.Random) -> str:
    """Change a column, the rows or the metadata of a Parquet file."""
    frame = pl.read_parquet(path)
    metadata = {key: of for key, of in pl.read_parquet_metadata(path).items() if key != "ARROW:schema"}
    kind = rng.random()
    if kind < 0.2:
        done = _change_metadata(metadata, rng)
    elif kind < 0.35:
        rows = {
            "empty": frame.head(0),
            "one row": frame.head(1),
            "a row twice": pl.concat([frame, frame.head(1)]),
            "half of the rows": frame.head(len(frame) // 2),
            "reversed": frame.reverse(),
            "no column": frame.select(),
        }
        done = rng.choice([*rows])
        frame = rows[done]
    else:
        frame, done = _change_column(frame, rng.choice(frame.columns), rng)
    table = frame.to_arrow()
    # As far as the columns still fit: without the types of a shard, no shard is read any further.
    with suppress(pa.ArrowException, ValueError):
        table = table.cast(pq.read_schema(path))
    pq.write_table(table.replace_schema_metadata(metadata), path)
    seal_all(path)
    return done


def _change_metadata(metadata: dict[str, str], rng: random.Random) -> str:
    """Replace or delete a value of the metadata, or a key inside it."""
    key = rng.choice([*metadata])
    if metadata[key].startswith("{") and rng.random() < 0.7:
        tree = json.loads(metadata[key])
        inner = rng.choice([*tree])
        done = f"{inner!r} {_change_key(tree, inner, rng)}"
        metadata[key] = json.dumps(tree)
    else:
        value = rng.choice((None, "null", "[1]", "{", "{}", "text", "é\x1b[31m", "<script>"))
        del metadata[key]
        metadata |= {key: value} if value is not None else {}
        done = f"is {value!a}"
    return f"metadata {key!r}: {done}"


def _change_column(frame: pl.DataFrame, name: str, rng: random.Random) -> tuple[pl.DataFrame, str]:
    if rng.random() < 0.1:
        return frame.drop(name), f"column {name!r} dropped"
    cell, kind = rng.choice(CELLS), frame.schema[name]
    # Of the column's own type, if the cell can have it, so that the type does not give it away.
    try:
        new = pl.Series(name, [cell], dtype=kind, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        new = pl.Series(name, [cell])
    if new.dtype == kind and rng.random() < 0.5:
        row = rng.randrange(len(frame))
        new = pl.concat([frame[name][:row], new, frame[name][row + 1 :]])
        where = f"in row {row}"
    else:
        new = new.new_from_index(0, len(frame))
        where = f"of type {new.dtype}"
    return frame.with_columns(new), f"column {name!r} is {ascii(cell)[:60]} {where}"


def _forge_weights(path: Path, rng: random.Random) -> str:
    weights = load_file(path)
    name = rng.choice([*weights])
    weight = weights.pop(name)
    place = rng.randrange(weight.numel())

    def at(value: float) -> torch.Tensor:
        changed = weight.clone()
        changed.view(-1)[place] = value
        return changed

    changes: dict[str, Callable[[], torch.Tensor]] = {
        "a NaN": lambda: at(math.nan),
        "an infinity": lambda: at(math.inf),
        "all huge": lambda: torch.full_like(weight, 1e38),
        "all zero": lambda: torch.zeros_like(weight),
        "integers": lambda: weight.int(),
        "complex": lambda: weight.to(torch.complex64),
        "fp16": lambda: weight.half(),
        "flat": lambda: weight.flatten(),
        "of no rows": lambda: weight[:0],
        "of fewer rows": lambda: weight[:-1].clone(),
    }
    done = rng.choice([*changes, "deleted"])
    if done != "deleted":
        weights[rng.choice([name, name, name, f"{name}.more"])] = changes[done]().contiguous()
    save_file(weights, path)
    seal_all(path)
    return f"{name!r} {done}"


_FORGERIES = {
    ".json": _forge_json,
    ".jsonl": _forge_lines,
    ".parquet": _forge_table,
    ".safetensors": _forge_weights,
}


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
