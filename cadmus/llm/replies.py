"""Ledger of requests and replies: one append-only file of JSON lines per model.

A line is one of

* ``{"sent": key, …}``: a request is about to be sent on its own;
* ``{"key": key, "status": 200, "raw": text, …}``: its reply, byte for byte except for the API key. Bytes
  that are not UTF-8 are escaped as in Python's ``surrogateescape``. ``encoding`` is the ``Content-Encoding``,
  ``cut`` the reason why the reply is incomplete. Earlier versions wrote ``body``, the parsed JSON;
* ``{"key": key, "status": 200, "line": text, …}``: its line in the results of a batch. The line is empty if
  the request has none, but some lines name no request;
* ``{"stray": text, …}``: such a line;
* ``{"key": key, "status": 400, "error": {…}, …}``: an error; the status is null without a reply;
* ``{"batch": id, "keys": […], …}``: a batch of requests was created;
* ``{"ended": id, "status": "completed", …}``: a batch ended; its results are in the lines above.

Each line is written before anything else happens, and a reply before it is parsed, so a killed process loses
no reply that it received. If a full disk or a crash cut off the line of a reply, the reply counts as
malformed. Other damaged lines are skipped.
"""

import errno
import fcntl
import json
import os
import re
import reprlib
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from cadmus.errors import InputError, reading
from cadmus.llm import ModelOutputError
from cadmus.llm.answers import Answer, read_body, read_reply
from cadmus.llm.requests import Request
from cadmus.store import as_input_error

API_KEY = "OPENAI_API_KEY"
"""Environment variable of the API key."""
FINAL = {400, 413, 422}
"""Statuses that a server would repeat. A request with any other may be sent again."""
TIMED_OUT = {None, 408, 504, 522, 524}
"""Statuses after which the server, or one behind it, may have answered and charged the request."""
_SYNC_SECONDS = 1.0
_RESERVE = 1 << 22
"""Bytes that are kept free on the disk for the replies under way when it is full."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
_SHORTEST_KEY = 8
"""A shorter key is a placeholder, a word that any text may contain."""
_CUT_OFF = re.compile(r'\{"key": "([0-9a-f]{32})", "server": "([^"]*)", "status": (2\d\d), ')
_KEYS = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def redact(text: str) -> str:
    """Remove the API key from a text."""
    key = os.environ.get(API_KEY, "").strip()
    return text.replace(key, f"[{API_KEY}]") if len(key) >= _SHORTEST_KEY else text


class _Line(BaseModel):
    """A line of the ledger."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class _Sent(_Line):
    sent: str


class Result(_Line):
    """The reply to a request, or the error instead of it."""

    key: str
    server: str = ""
    status: int | None
    error: dict[str, Any] | None = None
    raw: str | None = None
    encoding: str = ""
    line: str | None = None
    body: Any = None

    def read(self, url: str) -> Answer:
        """Read the answer in a reply of an endpoint.

        Raises:
            ModelOutputError: the reply has no known shape.
        """
        body = self.body
        if self.raw is not None:
            body = read_body(self.raw.encode("utf-8", "surrogateescape"), self.encoding)
        elif self.line is not None:
            try:
                response = _BatchLine.model_validate(_loads(self.line)).response
            except ValueError:
                raise ModelOutputError("not a result of a batch") from None
            body = response.body if response and response.status_code == 200 else None
        return read_reply(url, body)


class _Batch(_Line):
    batch: str
    keys: list[str]
    server: str = ""


class _Ended(_Line):
    ended: str


class _Stray(_Line):
    stray: str


_LINES: dict[str, type[_Line]] = {
    "sent": _Sent,
    "key": Result,
    "batch": _Batch,
    "ended": _Ended,
    "stray": _Stray,
}


class _BatchResponse(_Line):
    status_code: int
    body: Any = None


class _BatchLine(_Line):
    """A line of the results of a batch."""

    custom_id: str
    response: _BatchResponse | None = None
    error: Any = None


class Replies:
    """The ledger of one model.

    Attributes:
        path: the file.
        results: replies, by key.
        errors: requests that have an error instead, by key.
        unheard: times a request was sent on its own and nothing came back, by key. It may have been charged.
        discarded: replies that were asked for again or replaced, by key. They were charged.
        batches: keys of the requests in each batch that has not ended, by batch id.
        ended: ids of the batches that have.
        servers: servers that answered.
        damaged: number of lines that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._synced = 0.0
        self._reserve = path.with_suffix(".reserve")
        self._full = False
        self._read()

    def _read(self) -> None:
        self.results: dict[str, Result] = {}
        self.errors: dict[str, Result] = {}
        self.unheard: Counter[str] = Counter()
        self.discarded: Counter[str] = Counter()
        self.batches: dict[str, list[str]] = {}
        self.ended: set[str] = set()
        self.servers: set[str] = set()
        self.damaged = 0
        self._answers: dict[str, Answer | None] = {}
        with reading(self.path):
            content = self.path.read_bytes() if self.path.exists() else b""
        # One damaged line must not cost the others.
        for line in content.decode("utf-8", "replace").split("\n"):
            if line:
                self._apply(_parse(line))

    def settles(self, key: str) -> bool:
        """Return True if a request needs no sending: it was answered or rejected for good."""
        return key in self.results or (key in self.errors and self.errors[key].status in FINAL)

    def answer(self, request: Request) -> Answer | None:
        """Return the answer to a request that has a reply, or None if the reply has no known shape."""
        if request.key not in self._answers:
            try:
                self._answers[request.key] = self.results[request.key].read(request.url)
            except ModelOutputError:
                self._answers[request.key] = None
        return self._answers[request.key]

    def malformed(self, requests: Mapping[str, Request]) -> set[str]:
        """Return the keys of the requests whose reply has no known shape."""
        return {key for key in self.results.keys() & requests.keys() if self.answer(requests[key]) is None}

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
            with as_input_error(self._reserve), self._reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE)
            self._full = False
            try:
                yield self
            finally:
                self._reserve.unlink(missing_ok=True)
            os.fsync(self._file)
        finally:
            os.close(self._file)
            self._file = None

    def add(self, flush: bool = False, **line: Any) -> None:
        """Append a line, with the time.

        Args:
            flush: flush it to the disk now, rather than within a second.
            line: the fields.

        Raises:
            InputError: the file cannot be written. If the disk is full, replies still can.
        """
        if self._full and "sent" in line:
            raise InputError(f"cannot write {self.path}: {os.strerror(errno.ENOSPC)}")
        line["time"] = round(time.time(), 3)
        # ASCII: replies may hold any character, such as a lone surrogate.
        self._append((json.dumps(line) + "\n").encode(), flush)
        self._apply(_validated(line))

    def _append(self, data: bytes, flush: bool = False) -> None:
        assert self._file is not None, "opened by writing()"
        with as_input_error(self.path):
            while data:
                try:
                    data = data[os.write(self._file, data) :]
                except OSError as error:
                    if error.errno not in _FULL or self._full:
                        raise
                    self._full = True
                    self._reserve.unlink(missing_ok=True)
            if flush or time.monotonic() > self._synced + _SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def _apply(self, line: _Line | None) -> None:
        match line:
            case None:
                self.damaged += 1
            case _Sent():
                self._discard(line.sent)
                self.unheard[line.sent] += 1
            case Result():
                if line.status not in TIMED_OUT and self.unheard[line.key]:
                    self.unheard[line.key] -= 1
                if line.error is None:
                    self._discard(line.key)
                    self.results[line.key] = line
                else:
                    self.errors[line.key] = line
                self.servers |= {line.server} - {""}
            case _Batch():
                for key in line.keys:
                    self._discard(key)
                self.batches[line.batch] = line.keys
            case _Ended():
                self.batches.pop(line.ended, None)
                self.ended.add(line.ended)

    def _discard(self, key: str) -> None:
        """Forget a reply whose request is sent again, except that it was charged."""
        self._answers.pop(key, None)
        if self.results.pop(key, None) is not None:
            self.discarded[key] += 1


def _loads(text: str) -> Any:
    """Parse JSON; raise ValueError if it is damaged in any way."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _validated(values: Any) -> _Line:
    """Return a line of the ledger; raise ValueError if it is none."""
    for name, model in _LINES.items():
        if isinstance(values, dict) and name in values:
            return model.model_validate(values)
    raise ValueError("not a line of the ledger")


def _parse(text: str) -> _Line | None:
    """Return a line of the ledger, or None if it is damaged."""
    try:
        return _validated(_loads(text))
    except ValueError:
        found = _CUT_OFF.match(text)
        # The reply came and was charged.
        return Result(key=found[1], server=found[2], status=int(found[3]), raw="") if found else None


def take_results(
    text: str,
    requests: Mapping[str, Request],
    replies: Mapping[str, Replies],
    server: str,
    strays: Replies | None = None,
    others: Collection[str] = (),
) -> tuple[Counter[str], set[str]]:
    """Store the results in a file that OpenAI's batches or ``vllm run-batch`` wrote, in any order.

    Args:
        text: the file, one JSON object per line.
        requests: the requests that the lines may answer, by key (their ``custom_id``).
        replies: the ledger of each model, open for writing.
        server: the server that answered.
        strays: the ledger for lines that name no request, and for those of ``others``; None if they need no
            storing.
        others: keys of requests of an earlier config, whose results are stored as well.

    Returns:
        Numbers of lines: ``answers``, ``errors``, ``malformed`` (replies without a known shape), ``repeated``
        (answered before), ``unmatched`` (not of these requests) and ``unreadable`` (of no known request); and
        the keys of the requests that the lines name.
    """
    lines = Counter(answers=0, errors=0, malformed=0, repeated=0, unmatched=0, unreadable=0)
    named = set()
    damaged = []
    for line in redact(text).split("\n"):
        if not line.strip():
            continue
        try:
            values = _BatchLine.model_validate(_loads(line))
            if values.custom_id not in requests:
                lines["unmatched"] += 1
                if strays and values.custom_id in others and not strays.settles(values.custom_id):
                    result = _as_result(values.custom_id, server, line, values)
                    strays.add(**result.model_dump(exclude_defaults=True))
                continue
            request = requests[values.custom_id]
            result = _as_result(request.key, server, line, values)
            if result.error is None:
                result.read(request.url)
        except (ModelOutputError, ValueError):
            damaged.append(line)
            continue
        named.add(request.key)
        ledger = replies[request.model]
        replaces = result.error is None and request.key in ledger.results and not ledger.answer(request)
        if ledger.settles(request.key) and not replaces:
            lines["repeated"] += 1
            continue
        ledger.add(**result.model_dump(exclude_defaults=True))
        lines["answers" if result.error is None else "errors"] += 1
    # After the readable lines, which may repeat them.
    for line in damaged:
        keys = {key for key in _KEYS.findall(line) if key in requests}
        if len(keys) != 1:
            lines["unreadable"] += 1
            if strays is not None:
                strays.add(stray=line)
            continue
        request = requests[keys.pop()]
        named.add(request.key)
        ledger = replies[request.model]
        if ledger.settles(request.key):
            lines["repeated"] += 1
            continue
        ledger.add(key=request.key, server=server, status=200, line=line)
        lines["malformed"] += 1
    return lines, named


def _as_result(key: str, server: str, line: str, values: _BatchLine) -> Result:
    """Return the result in a line; its status is None if the request never ran.

    Raises:
        ValueError: it holds neither a reply nor an error.
    """
    response, error = values.response, values.error
    status = response.status_code if response else None
    if not error and status == 200:
        return Result(key=key, server=server, status=200, line=line)
    if not error and response is None:
        raise ValueError("neither a reply nor an error")
    if error and status == 200:
        status = None
    elif not error and response:
        # A rejected request has its error in the body.
        error = response.body.get("error") if isinstance(response.body, dict) else None
    return Result(key=key, server=server, status=status, error=error_fields(error or f"status {status}"))


def error_fields(error: Any) -> dict[str, Any]:
    """Return the code and message of an error that a server sent, of any shape."""
    fields = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message") or ""
    return {
        "code": code if isinstance(code, str | int) else None,
        "message": (message if isinstance(message, str) else reprlib.repr(message))[:500],
    }
