"""Directories for the caches of libraries where the user's home cannot be written, as in many containers."""

import os
import tempfile
from pathlib import Path

CACHES = {
    "NUMBA_CACHE_DIR": "numba",
    "MPLCONFIGDIR": "matplotlib",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}
"""Variables of libraries, and their folders."""


def provide() -> None:
    """Set those :data:`CACHES` that are not set to temporary folders, if the home is not writable."""
    home = os.path.expanduser("~")
    if os.path.isdir(home) and os.access(home, os.W_OK):
        return
    missing = CACHES.keys() - os.environ.keys()
    # Numba prefers a folder next to the code.
    if os.access(Path(__file__).parent, os.W_OK):
        missing.discard("NUMBA_CACHE_DIR")
    if missing and (directory := _private_directory()):
        for name in missing:
            path = directory / CACHES[name]
            path.mkdir(exist_ok=True)
            os.environ[name] = str(path)


def _private_directory() -> Path | None:
    """Return a directory that only this user can write, as caches have code; None if there is no place."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        directory = Path(tempfile.gettempdir(), f"cadmus-{user}")
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
        if status.st_uid == user and status.st_mode & 0o777 == 0o700 and not directory.is_symlink():
            return directory
        # Somebody else's: a new one, for this process and those that it starts.
        return Path(tempfile.mkdtemp(prefix="cadmus-"))
    except OSError:
        return None
