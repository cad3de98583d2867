"""Forge sealed files: change what they hold and seal them again, as anyone can.

The seal has no key. It finds damage, not lies, so every value behind it may be anything.
"""

import hashlib
import json
import math
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
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
    *(
        [],
        [1],
        [None],
        {},
        {"a": {"b": 1}},
        f"{MODULE}:Mixer",
        "fractions:Fraction",
        "os:getpgid",
        "builtins:range",
    ),
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
    content = path.read_bytes()
    flipped = bytearray(content)
    for _ in range(3):
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    seal = b'{"seal": "' + b"0" * 64 + b'"}'
    contents = {
        "a list": b"[" + seal + b"]",
        "a text": b'"\\"seal\\": \\"' + b"0" * 64 + b'"',
        "no header": b'{"a": ' + seal + b"}",
        "a header of nothing": b'{"cadmus": ' + seal + b"}",
        "a header that is a list": b'{"cadmus": [' + seal + b"]}",
        "deep": b'{"cadmus": ' + b"[" * DEEP + seal + b"]" * DEEP + b"}",
        "not JSON": seal[:-1],
        "not UTF-8": b'{"a": "\xff", "cadmus": ' + seal + b"}",
        "bytes before": rng.randbytes(100) + content,
        "bytes after": content + rng.randbytes(100),
        "flipped bits": bytes(flipped),
        "empty": b"",
        "a pipe": None,
    }
    kind = rng.choice([*contents])
    path.unlink()
    if contents[kind] is None:
        os.mkfifo(path)
        return kind
    path.write_bytes(contents[kind] or b"")
    _seal_all(path)
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
    _seal_all(path)
    return f"{key!r} {done}"


def _change_key(parent: Any, key: Any, rng: random.Random) -> str:
    value = rng.choice(VALUES)
    if rng.random() < 0.25:
        del parent[key]
        return "deleted"
    parent[key] = value
    return f"replaced by {ascii(value)[:60]}"


def _forge_lines(path: Path, rng: random.Random) -> str:
    """Change a key of one or all lines of metrics, which may then be without a seal."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if rng.random() < 0.5:
        lines[0].pop(HEADER)
    key = rng.choice([*lines[0]])
    state, seed = rng.random() < 0.5, rng.random()
    done = ""
    for line in lines if state else lines[:1]:
        if key in line:
            done = _change_key(line, key, random.Random(seed))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    _seal_all(path)
    return f"{key!r} {done} in {'all lines' if state else 'one line'}"


def _forge_table(path: Path, rng: random.Random) -> str:
    """Change a column, the rows or the metadata of a Parquet file."""
    frame = pl.read_parquet(path)
    metadata = {key: of for key, of in pl.read_parquet_metadata(path).items() if key != "ARROW:schema"}
    kind = rng.random()
    if (kind < 0.15 and "template" in frame.columns) or kind < 0.2:
        key = rng.choice([*metadata])
        values = ("null", "[1]", "{", "{}", "text", "é\x1b[31m", "1e999", "<script>")
        new = rng.choice(values)
        if rng.random() < 0.3:
            del metadata[key]
            done = f"metadata {key!r} deleted"
        elif metadata[key].startswith("{"):
            tree = json.loads(metadata[key])
            inner = rng.choice([*tree])
            done = f"metadata {key!r}: {inner!r} {_change_key(tree, inner, rng)}"
            metadata[key] = json.dumps(tree)
        else:
            metadata[key] = new
            done = f"metadata {key!r} is {new!a}"
    elif kind < 0.35:
        rows = {
            "empty": frame.head(0),
            "one row": frame.head(1),
            "a row twice": pl.concat([frame, frame.head(1)]),
            "half of the rows": frame.head(len(frame) // 2),
            "every third row": frame.gather_every(3),
            "reversed": frame.reverse(),
            "no column": frame.select(),
        }
        done = rng.choice([*rows])
        frame = rows[done]
    else:
        name = rng.choice(frame.columns)
        frame, done = _change_column(frame, name, rng)
        done = f"column {name!r} {done}"
    _write_table(path, frame, metadata)
    return done


def _change_column(frame: pl.DataFrame, name: str, rng: random.Random) -> tuple[pl.DataFrame, str]:
    if rng.random() < 0.1:
        return frame.drop(name), "dropped"
    cell = rng.choice(CELLS)
    # Of the column's own type, if the cell can have it, so that the type does not give it away.
    kind = frame.schema[name]
    try:
        value = pl.Series([cell], dtype=kind, strict=True).item()
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        value = cell
    new: pl.Series
    if rng.random() < 0.5 and (value is None or pl.Series([value]).dtype in (kind, pl.Null)):
        row = rng.randrange(len(frame))
        values = frame[name].to_list()
        values[row] = value
        new = pl.Series(name, values, dtype=kind)
        done = f"is {ascii(cell)[:60]} in row {row}"
    else:
        new = pl.Series(name, [value] * len(frame), dtype=None if value is not None else kind)
        done = f"is {ascii(cell)[:60]}, of type {new.dtype}"
    return frame.with_columns(new), done


def _write_table(path: Path, frame: pl.DataFrame, metadata: dict[str, str]) -> None:
    if "template" in frame.columns and path.parent.parent.name == "dataset":
        _write_shard(path, frame)
    else:
        if HEADER in metadata:
            with suppress(ValueError, TypeError):
                header = json.loads(metadata[HEADER])
                header["seal"] = "0" * 64
                metadata = {**metadata, HEADER: json.dumps(header)}
        frame.write_parquet(path, metadata=metadata)
    _seal_all(path)


def _write_shard(path: Path, frame: pl.DataFrame) -> None:
    """Write a shard with the Arrow schema that Cadmus gives it, as far as the columns still fit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata
    schema = pq.read_schema(path)
    table = frame.to_arrow()
    columns = []
    for field in table.schema:
        column = table[field.name]
        if field.name in schema.names:
            wanted = schema.field(field.name).type
            encoded = pa.types.is_dictionary(wanted)
            with suppress(pa.ArrowException, ValueError):
                column = column.cast(pa.string() if encoded else wanted)
                column = column.dictionary_encode().cast(wanted) if encoded else column
        columns.append(column)
    table = pa.table(columns, names=table.schema.names)
    if table.schema.names == schema.names and table.schema.types == schema.types:
        with suppress(pa.ArrowException, ValueError):
            table = table.cast(schema)
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")


def _forge_weights(path: Path, rng: random.Random) -> str:
    weights = load_file(path)
    name = rng.choice([*weights])
    weight = weights[name]
    place = rng.randrange(weight.numel())

    def at(value: float) -> torch.Tensor:
        changed = weight.clone()
        changed.view(-1)[place] = value
        return changed

    changes: dict[str, Callable[[], torch.Tensor | None]] = {
        "a NaN": lambda: at(math.nan),
        "an infinity": lambda: at(math.inf),
        "all NaN": lambda: torch.full_like(weight, math.nan),
        "all huge": lambda: torch.full_like(weight, 1e38),
        "huge as they are": lambda: weight * 1e30,
        "all zero": lambda: torch.zeros_like(weight),
        "integers": lambda: weight.int(),
        "complex": lambda: weight.to(torch.complex64),
        "fp16": lambda: weight.half(),
        "flat": lambda: weight.flatten(),
        "of no rows": lambda: weight[:0],
        "of fewer rows": lambda: weight[:-1].clone(),
        "deleted": lambda: None,
    }
    done = rng.choice([*changes])
    changed = changes[done]()
    weights = {key: of for key, of in weights.items() if key != name}
    if changed is not None:
        weights[rng.choice([name, name, name, f"{name}.more"])] = changed.contiguous()
    save_file(weights, path)
    _seal_all(path)
    return f"{name!r} {done}"


_FORGERIES = {
    ".json": _forge_json,
    ".jsonl": _forge_lines,
    ".parquet": _forge_table,
    ".safetensors": _forge_weights,
}


def _seal_all(path: Path) -> None:
    """Seal a file again or, if its digest is in the JSON file of its directory, that file."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for place, entries in (
        (path.parent / "meta.json", lambda tree: [tree[HEADER]["files"]]),
        (path.parent.parent / "manifest.json", lambda tree: tree["files"]),
    ):
        if place == path or not place.is_file():
            continue
        tree = json.loads(place.read_text(encoding="utf-8"))
        for entry in entries(tree):
            if path.name in entry:
                entry[path.name] = digest
            elif entry.get("file") == str(path.relative_to(place.parent)):
                entry["sha256"] = digest
        place.write_text(json.dumps(tree, indent=1), encoding="utf-8")
        seal(place)
        return
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
