"""Ledger of requests and replies: one append-only file of JSON lines per model.

A line is one of

* ``{"sent": key, …}``: a request is about to be sent on its own;
* ``{"key": key, "status": 200, "body": {…}, …}``: its reply;
* ``{"key": key, "status": 400, "error": {…}, …}``: an error; the status is null without a readable reply;
* ``{"batch": id, "keys": […], …}``: a batch of requests was created;
* ``{"ended": id, "status": "completed", …}``: a batch ended; its results are in the lines above.

Each line is written before anything else happens, so a killed process loses no reply that it received. A line
cut off by a crash of the machine is skipped.
"""

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cadmus.common.files import as_input_error
from cadmus.errors import InputError, ModelOutputError
from cadmus.llm.answers import read_reply
from cadmus.llm.requests import Request

API_KEY = "OPENAI_API_KEY"
"""Environment variable of the API key."""
FINAL = {400, 413, 422}
"""Statuses that a server would repeat. A request with any other may be sent again."""
_SYNC_SECONDS = 1.0
_SHORTEST_KEY = 8
"""A shorter key is a placeholder, a word that any text may contain."""


def redact(text: str) -> str:
    """Remove the API key from a text."""
    key = os.environ.get(API_KEY, "").strip()
    return text.replace(key, f"[{API_KEY}]") if len(key) >= _SHORTEST_KEY else text


class Replies:
    """The ledger of one model.

    Attributes:
        path: the file.
        bodies: replies, by key.
        errors: lines of requests that have an error instead, by key.
        unheard: times a request was sent on its own and nothing came back, by key. It may have been charged.
        batches: keys of the requests in each batch that has not ended, by batch id.
        ended: ids of the batches that have.
        servers: servers that answered.
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
            # One damaged line must not cost the others.
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror}") from None
        for line in text.split("\n"):
            try:
                self._apply(json.loads(line))
            except (ValueError, TypeError, KeyError):
                continue

    def settles(self, key: str) -> bool:
        """Return True if a request needs no sending: it was answered or rejected for good."""
        return key in self.bodies or self.errors.get(key, {}).get("status") in FINAL

    @property
    def awaited(self) -> set[str]:
        """Keys of the requests in batches under way."""
        return {key for keys in self.batches.values() for key in keys}

    @contextmanager
    def writing(self) -> Iterator["Replies"]:
        """Lock the file and open it for appending.

        Raises:
            InputError: another process has locked it, or it cannot be written.
        """
        with as_input_error(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.path}: in use by another `cadmus llm`; wait until it ends") from None
            # Another process may have written since.
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
        """Append a line, with the time.

        Raises:
            InputError: the file cannot be written.
        """
        line["time"] = round(time.time(), 3)
        self._append((json.dumps(line, ensure_ascii=False) + "\n").encode())
        self._apply(line)

    def _append(self, data: bytes) -> None:
        assert self._file is not None, "opened by writing()"
        with as_input_error(self.path):
            while data:
                data = data[os.write(self._file, data) :]
            if time.monotonic() > self._synced + _SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def _apply(self, line: dict[str, Any]) -> None:
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


def take_results(
    text: str, requests: Mapping[str, Request], replies: Mapping[str, Replies], server: str
) -> Counter[str]:
    """Store the results in a file that OpenAI's batches or ``vllm run-batch`` wrote, in any order.

    Args:
        text: the file, one JSON object per line.
        requests: the requests that the lines may answer, by key (their ``custom_id``).
        replies: the ledger of each model, open for writing.
        server: the server that answered.

    Returns:
        Numbers of lines: ``answers``, ``errors``, ``repeated`` (answered before), ``unmatched`` (not of these
        requests) and ``malformed``.
    """
    lines = Counter(answers=0, errors=0, repeated=0, unmatched=0, malformed=0)
    for line in redact(text).splitlines():
        if not line.strip():
            continue
        try:
            key, status, body, error = _read_result(json.loads(line))
            request = requests.get(key or "")
        except (AttributeError, KeyError, TypeError, ValueError):
            lines["malformed"] += 1
            continue
        if request is None:
            lines["unmatched"] += 1
            continue
        ledger = replies[request.model]
        if ledger.settles(request.key):
            lines["repeated"] += 1
        elif status == 200:
            try:
                read_reply(request.url, body)
            except ModelOutputError:
                lines["malformed"] += 1
                continue
            ledger.add(key=key, server=server, status=status, body=body)
            lines["answers"] += 1
        else:
            ledger.add(key=key, server=server, status=status, error=error)
            lines["errors"] += 1
    return lines


def _read_result(line: dict[str, Any]) -> tuple[str | None, int | None, Any, dict[str, Any]]:
    """Return key, status, body and error of a line; the status is None if the request never ran."""
    response, error = line.get("response") or {}, line.get("error")
    body, status = response.get("body"), response.get("status_code")
    if error and status == 200:
        status = None
    elif not error and status != 200:
        # A rejected request has its error in the body.
        error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {"message": str(error)}
    described = {"code": error.get("code"), "message": str(error.get("message"))[:500]}
    return line.get("custom_id"), status, body, described
