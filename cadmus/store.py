"""Every file that Cadmus makes is written and read here.

A file appears under its name when it is complete, so a killed process leaves nothing half-written. A file
that Cadmus reads again is *sealed*: it has one header, the key ``cadmus``, with the kind of the file, the
instruction set, the commit, the versions of packages and a SHA-256 of the whole file. The seal is checked
once, on reading, and nowhere else. What does not fit it is damaged, edited or foreign; the error has the fix.

The seal has no key, so a file that fits it may still hold anything. It is read into a type that is declared
for it (:mod:`cadmus.records`, :mod:`cadmus.columns`); the error names the file, the field and the problem.

JSON files have the header as their first key, JSON lines in their first line and Parquet files as an entry
of their metadata. A directory is sealed by its JSON file, which lists the digests of the files next to it:
``meta.json`` those of a model or a checkpoint, ``manifest.json`` those of the shards of a dataset.
"""

import hashlib
import io
import itertools
import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cadmus import isa
from cadmus.distribution import CHECKOUT, NAME, VERSION
from cadmus.errors import CadmusError, InputError, naming, reading

# `cadmus run` and its errors need none of them.
if TYPE_CHECKING:
    import polars as pl

    from cadmus.columns import Table
    from cadmus.records import Origin

T = TypeVar("T")

KINDS = {
    "dataset": "write the manifest again",
    "model": "train or export it again",
    "checkpoint": "delete its directory to resume from the checkpoint before it",
    "metrics": "train again",
    "results": "evaluate again",
    "baselines": "run `cadmus baselines` again",
    "study": "collect it again",
}
"""Kinds of sealed files, and how to make one again."""
HEADER = "cadmus"
TEMPORARY = ".cadmus-partial-"
"""Begins the names of unfinished files; then follow the machine, the process, a number and the final name."""
_NUMBERS = itertools.count()

_SEAL = b'"seal": "'
_BLANK = b"0" * 64


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` and move it there if the block ends without an error.

    Of several writers at a time, the last one wins. The next writer of ``path`` removes what a killed one
    left. Links and special files are refused.
    """
    path = Path(path)
    numbered = f"{TEMPORARY}{socket.gethostname()}-{os.getpid()}-{next(_NUMBERS)}-{path.name}"
    temporary = path.with_name(numbered)
    with as_input_error(path):
        check_kind(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in left_by_killed(path):
            left.unlink(missing_ok=True)
        try:
            # Not through a link that someone puts there meanwhile.
            temporary.touch(exist_ok=False)
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def left_by_killed(path: Path) -> Iterator[Path]:
    """Yield the unfinished files of ``path`` whose writers, processes of this machine, have ended."""
    machine, name = re.escape(socket.gethostname()), re.escape(path.name)
    unfinished = re.compile(rf"{re.escape(TEMPORARY)}{machine}-(\d{{1,9}})-\d+-{name}", re.ASCII)
    for left in path.parent.glob(f"{TEMPORARY}*"):
        if writer := unfinished.fullmatch(left.name):
            try:
                os.kill(int(writer[1]), 0)
            except ProcessLookupError:
                yield left
            except PermissionError:
                # It runs, for another user.
                continue


@contextmanager
def replacing_together() -> Iterator[Callable[[Path | str], Path]]:
    """Yield a function like :func:`replacing` for files that belong together.

    All of them are moved if the block ends without an error.
    """
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(replacing(path))


def write_text(path: Path | str, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_card(path: Path | str, text: str) -> None:
    """Write a page that ends in its digest; one that a user has written or changed is not replaced."""
    path = Path(path)
    if path.exists() and not is_own_card(path):
        problem = "is not a card that Cadmus wrote, or was changed since"
        raise InputError(f"{path}: {problem}; move it, or write the card elsewhere with --output")
    write_text(path, f"{text.rstrip()}\n\n{_card_seal(text)}\n")


def is_own_card(path: Path) -> bool:
    """Return True if a page is as :func:`write_card` wrote it, so that it may be replaced."""
    with reading(path):
        text, _, last = path.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")
    return last == _card_seal(text)


def _card_seal(text: str) -> str:
    return f"<!-- made by cadmus card: {hashlib.sha256(text.strip().encode()).hexdigest()[:16]} -->"


def write_json(
    path: Path | str, kind: str, value: dict[str, Any], files: Mapping[str, Path] | None = None
) -> None:
    """Write a sealed JSON object, with the digests of ``files`` by their final names in its header."""
    digests = {name: digest_of(file) for name, file in (files or {}).items()}
    header = _header(kind) | ({"files": digests} if files else {})
    text = json.dumps({HEADER: header, **value}, indent=1, ensure_ascii=False)
    _write(path, text.encode() + b"\n")


def read_json(path: Path | str, kind: str, model: type[T], fix: str | None = None) -> T:
    """Read a sealed JSON object into the type ``model``, such as a :class:`cadmus.records.Sealed`.

    ``fix`` ends the error of what the type does not allow; by default it is that of the kind.
    """
    from cadmus.config import validate

    data = _check_seal(path, kind, _read(path))
    with reading(path, KINDS[kind]):
        value = json.loads(data)
    _check_header(path, kind, value)
    return validate(value, model, str(path), fix or KINDS[kind])


def write_lines(path: Path | str, kind: str, records: list[dict[str, Any]]) -> None:
    """Write sealed JSON lines; the first record has the header as a last key."""
    first, *others = records
    lines = map(json.dumps, [{**first, HEADER: _header(kind)}, *others])
    _write(path, "".join(f"{line}\n" for line in lines).encode())


def write_parquet(path: Path | str, kind: str, frame: "pl.DataFrame", metadata: dict[str, str]) -> None:
    """Write a sealed Parquet file, with ``metadata`` next to its header."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", metadata={**metadata, HEADER: json.dumps(_header(kind))})
    _write(path, buffer.getvalue())


def read_parquet(path: Path | str, kind: str, table: "Table", model: type[T]) -> tuple["pl.DataFrame", T]:
    """Read a sealed Parquet file with the columns of ``table``, and its metadata into the type ``model``."""
    from cadmus.config import validate

    data = _check_seal(path, kind, _read(path))
    with reading(path, KINDS[kind]):
        frame, metadata = _decode_parquet(data, table)
        metadata[HEADER] = json.loads(metadata.get(HEADER, "null"))
    _check_header(path, kind, metadata)
    record = validate(metadata, model, f"{path}: metadata", KINDS[kind])
    with naming(path, KINDS[kind]):
        return table.checked(frame), record


def read_results(path: Path | str, table: "Table") -> tuple["pl.DataFrame", "Origin"]:
    """Read results, sealed Parquet, or metrics: JSON lines, which have no seal while a training writes them.

    The table has at least the columns of ``table``.
    """
    import polars as pl

    from cadmus.records import Origin

    path = Path(path)
    if path.suffix == ".parquet":
        return read_parquet(path, "results", table, Origin)
    data = _read(path)
    if path.suffix != ".jsonl":
        raise InputError(f"{path}: not a file of results or metrics; its suffix must be .parquet or .jsonl")
    if _seal_place(data):
        _check_seal(path, "metrics", data)
        with reading(path, KINDS["metrics"]):
            first = json.loads(data.splitlines()[0])
        _check_header(path, "metrics", first)
    with reading(path):
        frame = pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    with naming(path, KINDS["metrics"]):
        flat = [name for name, kind in frame.schema.items() if not kind.is_nested()]
        return table.checked(frame.select(flat)), Origin()


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(path: Path, digest: str, kind: str) -> None:
    """Check a file against the digest in the header of its directory."""
    with reading(path):
        if digest_of(path) != digest:
            raise _damaged(path, kind)


def _header(kind: str) -> dict[str, Any]:
    origin = {"isa_digest": isa.digest(), "commit": commit(), "versions": versions()}
    return {"kind": kind, **origin, "seal": _BLANK.decode()}


def _write(path: Path | str, data: bytes) -> None:
    """Write a file with its seal: the SHA-256 of its contents with a blank one."""
    start = _seal_place(data)
    sealed = data[:start] + hashlib.sha256(data).hexdigest().encode() + data[start + len(_BLANK) :]
    with replacing(path) as temporary:
        temporary.write_bytes(sealed)


def _read(path: Path | str) -> bytes:
    with reading(path):
        return Path(path).read_bytes()


def _seal_place(data: bytes) -> int:
    """Return the index of the first digit of the seal, or 0."""
    return data.rfind(_SEAL) + len(_SEAL) if _SEAL in data else 0


def _check_seal(path: Path | str, kind: str, data: bytes) -> bytes:
    start = _seal_place(data)
    if not start:
        writer = "an earlier version of Cadmus or another program"
        raise InputError(f"{path}: not sealed, so {writer} wrote it; {KINDS[kind]}")
    end = start + len(_BLANK)
    if hashlib.sha256(data[:start] + _BLANK + data[end:]).hexdigest().encode() != data[start:end]:
        raise _damaged(path, kind)
    return data


def _check_header(path: Path | str, kind: str, value: Any) -> None:
    from cadmus.config import validate
    from cadmus.records import Sealed

    header = validate(value, Sealed, str(path), KINDS[kind]).cadmus
    if header.kind != kind:
        raise InputError(f"{path}: a file of kind {header.kind}, not {kind}")
    if header.isa_digest != isa.digest():
        problem = f"of instruction set {header.isa_digest}, this is {isa.digest()}"
        raise InputError(f"{path}: {problem}; {KINDS[kind]}")


def _decode_parquet(data: bytes, table: "Table") -> tuple["pl.DataFrame", dict[str, Any]]:
    """Return the columns of a Parquet file, those of ``table`` alone, and its metadata.

    Arrow raises errors for all that is damaged, where polars can panic. Texts stay encoded as categories, so
    that a small file cannot hold a large one many times.
    """
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cadmus.columns import MOST_ROWS

    footer = pq.read_metadata(pa.BufferReader(data))
    if footer.num_rows > MOST_ROWS:
        raise ValueError(f"{footer.num_rows:,} rows; at most {MOST_ROWS:,} are read")
    metadata = {key.decode(): text.decode() for key, text in (footer.metadata or {}).items()}
    stored = {footer.schema.column(index).path for index in range(footer.num_columns)}
    texts = [name for name, column in table.columns.items() if column.type is str and name in stored]
    with pq.ParquetFile(pa.BufferReader(data), metadata=footer, read_dictionary=texts) as file:
        decoded = file.read([name for name in file.schema_arrow.names if name in table.columns])
    decoded.validate(full=True)
    frame = pl.from_arrow(decoded.replace_schema_metadata(None))
    assert isinstance(frame, pl.DataFrame)
    return frame, metadata


def _damaged(path: Path | str, kind: str) -> InputError:
    return InputError(f"{path}: damaged or changed since Cadmus wrote it; {KINDS[kind]}")


@contextmanager
def as_input_error(path: Path) -> Iterator[None]:
    """Report in one line that ``path``, a file or directory, cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    except CadmusError:
        raise
    except Exception:
        # Torch, polars and matplotlib raise their own errors for a full disk.
        if refusal := _refusal(path):
            raise InputError(f"cannot write {path}: {refusal}") from None
        raise


def check_kind(path: Path, directory: bool = False) -> None:
    """Check that writing a file, or a directory, replaces nothing of another kind, and follows no link."""
    problem = None
    if path.exists() and path.is_dir() != directory:
        problem = "a file" if directory else "a directory"
    elif not directory and path.is_symlink():
        problem = f"a link; give its target, {os.path.realpath(path)}"
    elif path.exists() and not (path.is_dir() or path.is_file()):
        problem = "not a regular file; give another name"
    if problem:
        raise InputError(f"cannot write {path}: it is {problem}")


def check_writable(path: Path | str, directory: bool = False) -> None:
    """Check before long work that a file, or a directory, can be written; creates nothing."""
    path = Path(path)
    check_kind(path, directory)
    if refusal := _refusal(path):
        raise InputError(f"cannot write {path}: {refusal}")


def _refusal(path: Path) -> str | None:
    """Return why no file can be created in the nearest existing parent of ``path``, or None."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 16))
    except OSError as error:
        return error.strerror
    return None


def commit() -> str:
    """Return the Git commit of the checkout, ending in ``-dirty`` if changed, else the version of Cadmus."""
    if CHECKOUT is None:
        return VERSION
    # With both paths given, Git neither searches the parent directories nor obeys the GIT_DIR of a hook.
    git = ["git", f"--git-dir={CHECKOUT}/.git", f"--work-tree={CHECKOUT}"]
    # The package may have been copied into another project.
    ours = [*git, "grep", "--quiet", f'^name = "{NAME}"', "HEAD", "--", "pyproject.toml"]
    described = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        subprocess.run(ours, cwd=CHECKOUT, capture_output=True, check=True)
        return subprocess.check_output(described, cwd=CHECKOUT, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return VERSION


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, if they are installed."""
    installed = {}
    for package in ("torch", "deepspeed", "numpy"):
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed
