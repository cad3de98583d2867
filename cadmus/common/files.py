"""Writing files so that nothing is ever half-written, and reading the tables that people edit."""

import csv
import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cadmus.errors import CadmusError, InputError

REFUSALS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.ENOSPC,
    errno.EPERM,
    errno.EROFS,
}
"""What a machine refuses for want of space or permission: the user's to mend, wherever it happens."""


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends without an error.

    Raises:
        InputError: the folder cannot be written to, or there is no space left.
    """
    path = Path(path)
    with as_input_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
    try:
        with as_input_error(path):
            # mkstemp makes the file private; what we write should be as readable as any other file.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            yield temporary
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def as_input_error(path: Path) -> Iterator[None]:
    """Say in one line that ``path``, a file or folder, cannot be written.

    Raises:
        InputError: instead of an OSError, and of whatever a library makes of one.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    except CadmusError:
        raise
    except Exception:
        # Torch, polars and matplotlib have errors of their own for a full disk.
        refusal = _refusal(_folder(path))
        if refusal is None:
            raise
        raise InputError(f"cannot write {path}: {refusal}") from None


def flush(path: Path) -> None:
    """Have a file, or the names in a directory, on the disk and not only in the memory of the system."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_directory(directory: Path) -> None:
    """Have all files below a directory, and then their names, on the disk."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            flush(Path(folder, name))
        flush(Path(folder))


def check_writable(path: Path | str, directory: bool = False) -> None:
    """Find out before the work is done whether a file, or a directory, can be written; makes nothing.

    Raises:
        InputError: there is something else of that name, or the nearest folder that exists cannot be
            written to.
    """
    path = Path(path)
    if path.exists() and path.is_dir() != directory:
        raise InputError(f"cannot write {path}: it is {'a file' if directory else 'a directory'}")
    refusal = _refusal(_folder(path))
    if refusal is not None:
        raise InputError(f"cannot write {path}: {refusal}")


def _folder(path: Path) -> Path:
    """The nearest folder, or what stands in its place, above ``path``."""
    return next(parent for parent in path.absolute().parents if parent.exists())


def _refusal(folder: Path) -> str | None:
    """What the file system has against one more file in ``folder``; None if nothing."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 16))
    except OSError as error:
        return error.strerror
    return None


def read_table(path: Path, columns: Sequence[str], of_what: str) -> list[dict[str, str]]:
    """The rows of a table of tab-separated values; lines that begin with # are comments.

    Args:
        path: where it is.
        columns: the names that its first line must have.
        of_what: what it is a table of, for the errors.

    Raises:
        InputError: the file cannot be read, has other columns, or a row with another number of cells.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"cannot read the table of {of_what} {path}: {reason}") from None
    table = csv.reader(
        (line for line in lines if line and line[0] != "#"), delimiter="\t", quoting=csv.QUOTE_NONE
    )
    names, *rows = [*table] or [[]]
    if tuple(names) != tuple(columns):
        raise InputError(
            f"{path}: the columns of a table of {of_what} are {', '.join(columns)}, between tabs"
        )
    for cells in rows:
        if len(cells) != len(columns):
            raise InputError(
                f"{path}: the row {cells[0]!r} has {len(cells)} cells, not {len(columns)}, between tabs"
            )
    return [dict(zip(columns, cells, strict=True)) for cells in rows]
