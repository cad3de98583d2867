"""Random damage to input files and command lines.

A mutator takes the content of a file and a random generator, and returns a description of what it changed.
Files are damaged by their suffix: trees of values (JSON, YAML), tables (Parquet), tensors (safetensors), and
the bytes of any file.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

DEPTH = 100_000
"""Levels of the deepest values; Python's own limit is about 1,000."""
_LONG = {
    "@list@": "[" * DEPTH + "]" * DEPTH,
    "@mapping@": '{"a": ' * DEPTH + "1" + "}" * DEPTH,
    "@integer@": "9" * 5_000,
}
"""Text that replaces a placeholder once the tree is written."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2.5,
    10**30,
    10**400,
    -(2**63),
    2**64,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1",
    "../up",
    "é\u202e\x1b[31m",
    "\ud800",
    "a" * 100_000,
    [],
    {},
    [[]],
    ["x"],
    {"x": None},
    {"": 0},
    *_LONG,
)
"""Values that replace another one in a tree."""
RAW_YAML = (
    "!!python/object/apply:os.system [true]",
    "!!int abc",
    "!!binary x",
    "2020-99-99",
    "!!set {a, b}",
    "{? [a, b] : 1}",
    "{? {a: b} : 1}",
    "&a [*a]",
    "{<<: {a: 1}, <<: 3}",
    "[&a [1, 1, 1, 1, 1, 1, 1, 1], &b [*a, *a, *a, *a, *a, *a], &c [*b, *b, *b, *b], &d [*c, *c, *c, *c]]",
    "*unknown",
    "{a: 1, a: 2}",
    "190:20:30",
    "0x" + "f" * 5_000,
    "-.inf",
    "'",
    "\t- a",
)
"""Text that replaces a value in YAML."""
NAMES = ("name", "config", "train", "__class__", "", "é", "1", "null", "a" * 1_000)
"""Keys that are added."""
WORDS = (
    "",
    "-",
    "--",
    "0",
    "1",
    "-1",
    "1.5",
    "1e999",
    "nan",
    "inf",
    "9" * 30,
    "9" * 5_000,
    "٣",
    "é\u202e\x1b[31m",
    "\udcff",
    "{}",
    "[",
    "true",
    "none",
    ".",
    "..",
    "no/such/path",
    "config.yaml",
    "model",
    "dataset",
    "experiments/grid.parquet",
    "a" * 300,
    "a" * 5_000,
    "--help",
    "--unknown",
    "--json",
    "--output",
    "--seed=-3",
    "x.parquet",
    "x.md",
)
"""Words of a command line; no absolute path, so that a mutant stays in its directory."""

Mutator = Callable[[Path, random.Random], str]


def mutate(path: Path, rng: random.Random) -> str:
    """Damage a file and return a description."""
    by_suffix: dict[str, tuple[Mutator, ...]] = {
        ".json": (_json,) * 5,
        ".jsonl": (_json_lines,) * 4,
        ".yaml": (_yaml,) * 5,
        ".parquet": (_parquet,) * 4,
        ".safetensors": (_safetensors,) * 3,
        ".txt": (_lines,) * 2,
        ".csv": (_cells,) * 3,
    }
    return rng.choice((*by_suffix.get(path.suffix, ()), _bytes))(path, rng)


def mutate_arguments(arguments: list[str], options: list[str], rng: random.Random) -> tuple[list[str], str]:
    """Return other arguments and a description.

    Args:
        arguments: of a command, without its name.
        options: names of the options of the command.
    """
    changed = list(arguments)
    for _ in range(rng.choice((1, 1, 1, 2))):
        place = rng.randrange(len(changed) + 1)
        edit = rng.random()
        if edit < 0.5 and place < len(changed):
            changed[place] = rng.choice(WORDS)
        elif edit < 0.6 and place < len(changed):
            del changed[place]
        elif edit < 0.8 and options:
            changed[place:place] = [rng.choice(options), rng.choice(WORDS)]
        else:
            changed.insert(place, rng.choice(WORDS))
    return changed, " ".join(repr(word[:60]) for word in changed)


def _json(path: Path, rng: random.Random) -> str:
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree, change = _tree(tree, rng)
    path.write_text(_as_json(tree), encoding="utf-8")
    return change


def _json_lines(path: Path, rng: random.Random) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    number = rng.randrange(len(lines))
    edit = rng.random()
    if edit < 0.7:
        tree, change = _tree(json.loads(lines[number]), rng)
        lines[number] = _as_json(tree)
    elif edit < 0.8:
        lines[number], change = rng.choice(("", "{", "null", "[]", "3", '"x"', "{}", "NaN")), "another line"
    elif edit < 0.9:
        lines[number], change = lines[number][: rng.randrange(len(lines[number]))], "cut off"
    else:
        lines.insert(number, lines[rng.randrange(len(lines))])
        change = "repeated"
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return f"line {number + 1}: {change}"


def _yaml(path: Path, rng: random.Random) -> str:
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    raw = rng.choice(RAW_YAML) if rng.random() < 0.3 else None
    if raw is None:
        tree, change = _tree(tree, rng)
    else:
        parents = [(parent, key) for parent, key in _places(tree)]
        parent, key = rng.choice(parents)
        parent[key], change = "@raw@", f"{key}: {raw[:60]}"
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, default_flow_style=None)
    for placeholder, value in {**_LONG, "@raw@": raw or ""}.items():
        text = text.replace(f"'{placeholder}'", value)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return change


def _as_json(tree: Any) -> str:
    text = json.dumps(tree)
    for placeholder, value in _LONG.items():
        text = text.replace(f'"{placeholder}"', value)
    return text


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or mapping in a tree with each of its indices or keys."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in list(keys):
        yield tree, key
        yield from _places(tree[key])


def _tree(tree: Any, rng: random.Random) -> tuple[Any, str]:
    """Change one place of a tree."""
    places = list(_places(tree))
    if not places or rng.random() < 0.03:
        value = rng.choice(VALUES)
        return value, f"all: {_shown(value)}"
    parent, key = rng.choice(places)
    value = parent[key]
    edit = rng.random()
    if edit < 0.55:
        parent[key] = rng.choice(VALUES)
        return tree, f"{key}: {_shown(parent[key])} instead of {_shown(value)}"
    if edit < 0.7:
        del parent[key]
        return tree, f"{key}: deleted"
    if edit < 0.8 and isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = rng.choice((-value, value + 1, value * 1_000, value / 3, str(value), [value]))
        return tree, f"{key}: {_shown(parent[key])} instead of {_shown(value)}"
    if edit < 0.9 and isinstance(parent, dict):
        name = rng.choice((*NAMES, f"{key}s"))
        parent[name] = rng.choice(VALUES)
        return tree, f"{name[:20]}: added with {_shown(parent[name])}"
    other, place = rng.choice(places)
    parent[key] = _copy(other[place])
    return tree, f"{key}: that of {place}"


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _shown(value: Any) -> str:
    return ascii(value)[:40]


def _bytes(path: Path, rng: random.Random) -> str:
    """Change the bytes of a file, or what is in its place."""
    content = path.read_bytes()
    place = rng.randrange(len(content) + 1)
    edits: dict[str, Callable[[], bytes | None]] = {
        "truncated": lambda: content[:place],
        "flipped": lambda: content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :],
        "inserted": lambda: content[:place] + rng.randbytes(rng.choice((1, 1, 8, 100))) + content[place:],
        "deleted": lambda: content[:place] + content[place + rng.choice((1, 1, 8, 100)) :],
        "not UTF-8": lambda: content[:place] + b"\xff" + content[place:],
        "NUL": lambda: content[:place] + b"\0" + content[place:],
        "surrogate": lambda: content[:place] + b"\xed\xa0\x80" + content[place:],
        "BOM": lambda: b"\xef\xbb\xbf" + content,
        "UTF-16": lambda: content.decode("latin-1").encode("utf-16"),
        "CRLF": lambda: content.replace(b"\n", b"\r\n"),
        "empty": lambda: b"",
        "twice": lambda: content * 2,
        "zeros": lambda: bytes(len(content)),
        "noise": lambda: rng.randbytes(200),
        "removed": lambda: None,
        "a directory": lambda: None,
        "a broken link": lambda: None,
    }
    edit = rng.choice((*edits, "truncated", "flipped", "flipped"))
    changed = edits[edit]()
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    elif edit == "a directory":
        path.mkdir()
    elif edit == "a broken link":
        path.symlink_to("nowhere")
    return f"{edit} at {place}"


def _lines(path: Path, rng: random.Random) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    number = rng.randrange(len(lines))
    lines[number] = rng.choice(("", " ", "é", "1" * 300, "1" * 100_000, "\x00", ",help", ",x", ".", "12+\r"))
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return f"line {number + 1}: {lines[number][:20]!r}"


def _cells(path: Path, rng: random.Random) -> str:
    """Change a cell, a row or the header of a CSV file."""
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    number = rng.choice((0, rng.randrange(len(rows))))
    column = rng.randrange(len(rows[number]))
    edit = rng.random()
    if edit < 0.6:
        rows[number][column] = rng.choice(("", "x", "nan", "1e999", "-1", '"', "é", "a" * 10_000, "true"))
    elif edit < 0.8:
        del rows[number][column]
    elif edit < 0.9:
        rows[number].append("1")
    else:
        rows = rows[:1]
    path.write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    return f"row {number}, column {column}"


def _parquet(path: Path, rng: random.Random) -> str:
    """Change the columns, the values or the metadata of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    stored = pq.read_metadata(path).metadata or {}
    metadata = {key: value for key, value in stored.items() if key != b"ARROW:schema"}
    names = table.column_names
    name = rng.choice(names)
    column, place = table[name].combine_chunks(), names.index(name)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    n = len(table)
    some = [rng.random() < 0.1 for _ in range(n)]

    def replaced(values: Any, kind: Any = None) -> Any:
        return table.set_column(place, name, pa.array(values, kind))

    def changed(new: Any, kind: Any = None) -> Any:
        """Put a value into some of the rows."""
        return replaced(
            [new if hit else value for hit, value in zip(some, column.to_pylist(), strict=True)], kind
        )

    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    edits: dict[str, Callable[[], Any]] = {
        "dropped": lambda: table.drop_columns([name]),
        "renamed": lambda: table.rename_columns([f"{old}_" if old == name else old for old in names]),
        "nulls": lambda: changed(None, column.type),
        "all null": lambda: replaced(pa.nulls(n, column.type)),
        "type null": lambda: replaced(pa.nulls(n)),
        "text": lambda: replaced([str(value) for value in column.to_pylist()]),
        "lists": lambda: replaced([[value] for value in column.to_pylist()]),
        "booleans": lambda: replaced([bool(hit) for hit in some]),
        "bytes": lambda: replaced([b"\xff"] * n),
        "no rows": lambda: table.slice(0, 0),
        "one row": lambda: table.slice(rng.randrange(max(n, 1)), 1),
        "rows twice": lambda: pa.concat_tables([table, table]),
        "half of the rows": lambda: table.take([row for row in range(n) if rng.random() < 0.5]),
        "shuffled": lambda: table.take(rng.sample(range(n), n)),
        "reordered": lambda: table.select(rng.sample(names, len(names))),
        "a column more": lambda: table.append_column("more", pa.array([1] * n)),
        "twice the column": lambda: table.append_column(name, column),
        "no metadata": lambda: table.replace_schema_metadata({}),
    }
    if numeric:
        edits |= {
            "NaN": lambda: changed(float("nan"), pa.float64()),
            "infinite": lambda: changed(float("inf"), pa.float64()),
            "negative": lambda: changed(-1, pa.int64() if pa.types.is_integer(column.type) else None),
            "huge": lambda: changed(2**62, pa.int64() if pa.types.is_integer(column.type) else None),
            "floats": lambda: replaced(column.to_pylist(), pa.float64()),
            "wider": lambda: replaced(column.to_pylist(), pa.int64()) if column.null_count < n else table,
        }
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        odd = rng.choice(("", "é", "x", "\x1b[31m", "1" * 300, "1" * 100_000, "-", "1", "é" * 20))
        edits |= {"odd text": lambda: changed(odd), "all odd text": lambda: replaced([odd] * n)}
    keys = sorted(metadata)
    if keys:
        key = rng.choice(keys)
        edits["metadata"] = lambda: table.replace_schema_metadata(
            {**metadata, key: _mutated_text(metadata[key], rng)}
        )
        edits["no metadata key"] = lambda: table.replace_schema_metadata(
            {other: value for other, value in metadata.items() if other != key}
        )
    edit = rng.choice((*edits, *("metadata", "metadata") * bool(keys)))
    try:
        new = edits[edit]()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        # The value does not fit the type of the column.
        edit, new = "dropped", edits["dropped"]()
    if "metadata" not in edit:
        new = new.replace_schema_metadata(metadata)
    pq.write_table(new, path, compression="zstd")
    return f"{name}: {edit}"


def _mutated_text(text: bytes, rng: random.Random) -> bytes:
    try:
        tree, _ = _tree(json.loads(text), rng)
        return _as_json(tree).encode()
    except ValueError:
        return rng.choice((b"", b"\xff", b"x", text[: len(text) // 2], b"1" * 100_000))


def _safetensors(path: Path, rng: random.Random) -> str:
    """Change the header or the tensors of a safetensors file."""
    if rng.random() < 0.3:
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header, change = _tree(json.loads(content[8 : 8 + size]), rng)
        text = _as_json(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
        return f"header: {change}"
    import torch
    from safetensors.torch import load_file, save_file

    # Copies, as the file is written again.
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    name = rng.choice(sorted(tensors))
    tensor = tensors.pop(name)
    edits: dict[str, Callable[[], dict[str, torch.Tensor]]] = {
        "missing": lambda: {},
        "renamed": lambda: {f"{name}_": tensor},
        "one more": lambda: {name: tensor, "more": torch.zeros(3)},
        "NaN": lambda: {name: tensor.index_fill(0, torch.tensor([0]), float("nan"))},
        "infinite": lambda: {name: torch.full_like(tensor, float("inf"))},
        "huge": lambda: {name: tensor * 1e30},
        "zeros": lambda: {name: torch.zeros_like(tensor)},
        "integers": lambda: {name: tensor.to(torch.int32)},
        "booleans": lambda: {name: tensor > 0},
        "float64": lambda: {name: tensor.double()},
        "bfloat16": lambda: {name: tensor.bfloat16()},
        "a row less": lambda: {name: tensor[:-1].clone()},
        "a row more": lambda: {name: torch.cat([tensor, tensor[:1]])},
        "flat": lambda: {name: tensor.flatten().clone()},
        "transposed": lambda: {name: tensor.T.contiguous()},
        "no elements": lambda: {name: torch.zeros(0)},
        "a scalar": lambda: {name: torch.tensor(1.0)},
        "a dimension more": lambda: {name: tensor[None].clone()},
    }
    edit = rng.choice(sorted(edits))
    save_file({**tensors, **edits[edit]()}, path, metadata={"format": "pt"})
    return f"{name}: {edit}"


def replace_tree(source: Path, target: Path) -> None:
    """Copy a file or a directory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
