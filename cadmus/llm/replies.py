"""What servers have answered: a file for each model that is only ever appended to.

Each line is a JSON object, one of

* ``{"sent": key, …}``: a request is about to be sent, by itself;
* ``{"key": key, "status": 200, "body": {…}, …}``: the reply to it;
* ``{"key": key, "status": 400, "error": {…}, …}``: what a server said instead, the status being null when
  there was no answer or none that could be read;
* ``{"batch": id, "keys": […], …}``: a batch of requests was created;
* ``{"ended": id, "status": "completed", …}``: it ended, and what came of it stands above.

Each line is written in one piece before anything else happens, so a process that is killed loses no reply
that it has received.  A line that was cut off by a crash of the machine is passed over.
"""

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cadmus.common.files import as_input_error
from cadmus.errors import InputError

FINAL = {400, 413, 422}
"""Statuses of a request that would be refused again; with any other, it may be sent once more."""
_SYNC_SECONDS = 1.0


class Replies:
    """The replies of one model, as far as they are in its file.

    Attributes:
        bodies: the replies, by key.
        errors: what a server said instead of one: status and error, by key.
        unheard: how often a request was sent by itself and nothing was heard, by key; it may have been paid
            for.
        batches: keys of the requests of each batch that has not ended, by its id.
        ended: ids of the batches that have.
        servers: that answered.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._synced = 0.0
        self._read()

    def _read(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, dict[str, Any]] = {}
        self.unheard: Counter[str] = Counter()
        self.batches: dict[str, list[str]] = {}
        self.ended: set[str] = set()
        self.servers: set[str] = set()
        try:
            # A line in pieces is no reason to lose the others.
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror}") from None
        for line in text.split("\n"):
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError):
                continue

    def settles(self, key: str) -> bool:
        """Whether a request need not be sent: it was answered, or refused for good."""
        return key in self.bodies or self.errors.get(key, {}).get("status") in FINAL

    @property
    def awaited(self) -> set[str]:
        """Keys of requests that batches under way will answer."""
        return {key for keys in self.batches.values() for key in keys}

    @contextmanager
    def writing(self) -> Iterator["Replies"]:
        """Append to the file, which no other process does meanwhile.

        Raises:
            InputError: another one does, or it cannot be written.
        """
        with as_input_error(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: another `cadmus llm` is at work on it; wait until it has ended"
                ) from None
            # What another process has written in between.
            self._read()
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                self._append(b"\n")
            yield self
            os.fsync(self._file)
        finally:
            os.close(self._file)
            self._file = None

    def add(self, **line: Any) -> None:
        """Write a line, with the time, and take note of it.

        Raises:
            InputError: it cannot be written.
        """
        line["time"] = round(time.time(), 3)
        self._append((json.dumps(line, ensure_ascii=False) + "\n").encode())
        self._take(line)

    def _append(self, data: bytes) -> None:
        assert self._file is not None, "opened by writing()"
        with as_input_error(self.path):
            while data:
                data = data[os.write(self._file, data) :]
            if time.monotonic() > self._synced + _SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def _take(self, line: dict[str, Any]) -> None:
        if "sent" in line:
            self.unheard[line["sent"]] += 1
        elif "key" in line:
            key = line["key"]
            if line["status"] is not None and self.unheard[key]:
                self.unheard[key] -= 1
            if "body" in line:
                self.bodies.setdefault(key, line["body"])
            else:
                self.errors[key] = line
            if "server" in line:
                self.servers.add(line["server"])
        elif "batch" in line:
            self.batches[line["batch"]] = line["keys"]
        elif "ended" in line:
            self.batches.pop(line["ended"], None)
            self.ended.add(line["ended"])
