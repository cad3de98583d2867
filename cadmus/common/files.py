"""Write files atomically, with one-line errors."""

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
"""Error numbers for missing space or permission, which the user can fix."""


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and move it there if the block ends without an error.

    Raises:
        InputError: no permission or no space.
    """
    path = Path(path)
    with as_input_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
    try:
        with as_input_error(path):
            # mkstemp makes the file private; give it the usual permissions.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            yield temporary
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def as_input_error(path: Path) -> Iterator[None]:
    """Report in one line that ``path``, a file or directory, cannot be written.

    Raises:
        InputError: in place of an OSError, or of any other error if the file system refuses writes.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    except CadmusError:
        raise
    except Exception:
        # Torch, polars and matplotlib raise their own errors for a full disk.
        refusal = _refusal(path)
        if refusal is None:
            raise
        raise InputError(f"cannot write {path}: {refusal}") from None


def check_writable(path: Path | str, directory: bool = False) -> None:
    """Check before a long run that a file, or a directory, can be written; creates nothing.

    Raises:
        InputError: the path is of the other kind, or its nearest existing parent cannot be written to.
    """
    path = Path(path)
    if path.exists() and path.is_dir() != directory:
        raise InputError(f"cannot write {path}: it is {'a file' if directory else 'a directory'}")
    refusal = _refusal(path)
    if refusal is not None:
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


def flush(path: Path) -> None:
    """Write a file, or the names in a directory, from the cache of the system to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_directory(directory: Path) -> None:
    """Flush all files below a directory, then their names."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            flush(Path(folder, name))
        flush(Path(folder))
