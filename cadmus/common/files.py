"""Write files atomically."""

import errno
import os
import tempfile
from collections.abc import Iterator
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
