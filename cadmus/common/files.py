"""Write files atomically, with one-line errors."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cadmus.common import interrupts
from cadmus.common.leftovers import remove, remove_leftovers, temporary_path
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

    A killed process leaves it behind; the next one that writes ``path`` removes it. A character device such
    as ``/dev/null`` is yielded itself.

    Raises:
        InputError: no permission, no space, or ``path`` is a link, a FIFO or the like.
    """
    path = Path(path)
    with as_input_error(path):
        check_kind(path)
        if path.is_char_device():
            yield path
            return
    temporary = temporary_path(path)
    with removing(temporary), as_input_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        temporary.touch(exist_ok=False)
        yield temporary
        os.replace(temporary, path)


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Like :func:`replacing` for a directory, which is created."""
    temporary, replaced = temporary_path(path), temporary_path(path)

    def restore() -> None:
        if replaced.exists() and not path.exists():
            replaced.rename(path)

    with removing(temporary), removing(replaced), interrupts.on_interrupt(restore), as_input_error(path):
        temporary.mkdir(parents=True)
        yield temporary
        if path.exists():
            path.rename(replaced)
        try:
            temporary.rename(path)
        finally:
            restore()
        # Not before: the leftovers of a killed process may be the only copies.
        remove_leftovers(path)


@contextmanager
def removing(path: Path) -> Iterator[None]:
    """Remove a file or directory after the block, also if a signal ends the process inside it."""
    with interrupts.on_interrupt(lambda: remove(path)):
        try:
            yield
        finally:
            remove(path)


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """Yield a directory for temporary files, removed as by :func:`removing`."""
    path = Path(tempfile.mkdtemp(prefix=prefix))
    with removing(path):
        yield path


@contextmanager
def replacing_together() -> Iterator[Callable[[Path | str], Path]]:
    """Yield a function like :func:`replacing` for files that belong together.

    It returns the temporary path of each, and all are moved if the block ends without an error; after one,
    all files are what they were.

    Raises:
        InputError: no permission or no space.
    """
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(replacing(path))


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


def check_kind(path: Path, directory: bool = False) -> None:
    """Check that writing a file, or a directory, replaces nothing else.

    Raises:
        InputError: the path is of another kind; for a file also a link, unless to a character device.
    """
    if path.exists() and path.is_dir() != directory:
        raise InputError(f"cannot write {path}: it is {'a file' if directory else 'a directory'}")
    if directory or path.is_char_device():
        return
    if path.is_symlink():
        raise InputError(f"cannot write {path}: it is a link; give its target, {os.path.realpath(path)}")
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file; give another name")


def check_writable(path: Path | str, directory: bool = False) -> None:
    """Check before a long run that a file, or a directory, can be written; creates nothing.

    Raises:
        InputError: as of :func:`check_kind`, or its nearest existing parent cannot be written to.
    """
    path = Path(path)
    check_kind(path, directory)
    if path.is_char_device():
        return
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
