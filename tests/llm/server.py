"""A server on loopback that speaks OpenAI's API, with reproducible faults."""

import argparse
import asyncio
import contextlib
import importlib
import json
import math
import re
import socket
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from tests.llm.api import ANSWERING, Api, ApiError, Faults, Stats, request_key

# Faults that lose a reply after the work has been done; at most one of them strikes.
LOSSES = ("dropped", "dropped_halfway", "malformed")


def fetch_stats(url: str) -> Stats:
    """The counts of a server in another process."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as reply:
        return Stats.from_json(reply.read())


@dataclass(frozen=True)
class Request:
    """A request; ``body`` is an uploaded file's content, or what the JSON says."""

    method: str
    target: str
    headers: dict[str, str]
    body: object

    @property
    def path(self) -> str:
        """Without the query."""
        return urlsplit(self.target).path

    @property
    def idempotency_key(self) -> str:
        """Empty if none was sent."""
        return self.headers.get("idempotency-key", "") if self.method == "POST" else ""


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The next request of a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    start, *lines = head.strip().split("\r\n")
    method, target, _ = start.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        raw = b""
        while size := int(await reader.readline(), 16):
            raw += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
    boundary = re.search(r'multipart/form-data.*boundary="?([^";]+)', headers.get("content-type", ""))
    body: object = None
    if boundary:
        # The boundary is another one each time: the file alone tells what the request is.
        parts = [part.partition(b"\r\n\r\n") for part in raw.split(b"--" + boundary[1].encode())[1:-1]]
        fields = {head.partition(b' name="')[2].split(b'"')[0]: content[:-2] for head, _, content in parts}
        body = fields.get(b"file") if fields.get(b"purpose") == b"batch" else None
    elif raw:
        try:
            body = json.loads(raw)
        except ValueError:
            body = raw.decode(errors="replace")
    return Request(method, target, headers, body)


def frame(status: int, headers: dict[str, str], content: bytes) -> bytes:
    """The bytes of a reply."""
    shown = {"Content-Type": "application/json", **headers, "Content-Length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    return f"HTTP/1.1 {status} -\r\n{head}\r\n".encode("latin-1") + content


def seconds(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, or 0 if it is malformed."""
    try:
        wait = float(retry_after)
        return wait if math.isfinite(wait) else 0
    except ValueError:
        with contextlib.suppress(ValueError):
            return parsedate_to_datetime(retry_after).timestamp() - time.time()
    return 0


class LlmServer:
    """The server, on a thread of its own while the context is open.

    ``answer`` gets a request's body and returns the text; it holds up all others while it runs. ``odd`` gets
    the key of a request for an answer and the content of its reply, and returns all bytes to reply instead.
    """

    def __init__(
        self,
        answer: Callable[[dict], str],
        faults: Faults | None = None,
        key: str | None = None,
        models: Sequence[str] = ("gpt-test",),
        idempotent: bool = False,
        port: int = 0,
        odd: Callable[[str, bytes], bytes | None] | None = None,
    ):
        self._faults, self._key, self._idempotent, self._port = faults or Faults(), key, idempotent, port
        self._odd = odd
        self._api = Api(answer, self._faults, models)
        # Held by the server's thread wherever it counts, and by readers of the counts.
        self._lock = threading.RLock()
        self._active = 0
        self._deadlines: dict[str, float] = {}
        # What was answered to each idempotency key, and which of them have been billed.
        self._replies: dict[str, dict | bytes] = {}
        self._paid: set[str] = set()
        self._connections: dict[asyncio.Task, asyncio.StreamWriter] = {}

    def __enter__(self) -> "LlmServer":
        self._socket = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        self._port = self._socket.getsockname()[1]
        self._loop, self._stop = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()
        if self.stats.failures and kind is None:
            raise AssertionError("the server failed:\n" + "\n".join(self.stats.failures))

    @property
    def url(self) -> str:
        """The base of the API."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def stats(self) -> Stats:
        """The counts of this moment, as a copy."""
        with self._lock:
            return Stats.from_json(self._api.stats.to_json())

    async def _serve(self) -> None:
        # Streams set TCP_NODELAY themselves.
        server = await asyncio.start_server(self._connection, sock=self._socket, limit=2**20)
        await self._stop.wait()
        server.close()
        for task, writer in self._connections.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections[task] = writer
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception:
            with self._lock:
                self._api.stats.failures.append(traceback.format_exc())
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            del self._connections[task]

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; whether the connection stays open."""
        request = await read_request(reader)
        if request.path == "/stats":
            writer.write(frame(200, {}, self.stats.to_json().encode()))
            return True
        key = request_key(request.path, request.body)
        self._active += 1
        try:
            with self._lock:
                before = self._arrived(request, key)
                status, headers, content = self._reply(request, key, before)
                losses = LOSSES if status == 200 else ()
                lost = next((name for name in losses if self._meets(name, request, key, before)), "")
            if self._faults.latency and self._is_meant(request):
                await asyncio.sleep(2 * self._faults.latency * self._faults.draw("latency", key, before))
        finally:
            self._active -= 1
        if lost == "dropped":
            return False
        text = frame(status, headers, content)
        asked = status == 200 and request.path in ANSWERING
        if asked and self._odd and (replacement := self._odd(key, content)) is not None:
            with self._lock:
                self._api.stats.billed[key] += 1
            writer.write(replacement)
            return False
        if lost == "dropped_halfway":
            writer.write(text[: len(text) - math.ceil(len(content) / 2)])
            return False
        if lost == "malformed":
            text = frame(status, headers, content[: len(content) // 2])
        with self._lock:
            # Counted with the lock held, for the client may ask for the counts as soon as it has its reply.
            if reader.at_eof():
                return False
            writer.write(text)
            if told := headers.get("Retry-After"):
                self._deadlines[key] = time.monotonic() + seconds(told)
            again = self._idempotent and request.idempotency_key in self._paid
            if status == 200 and request.method == "POST" and not lost and not again:
                self._api.stats.billed[key] += 1
                self._paid |= {request.idempotency_key} - {""}
        await writer.drain()
        return request.headers.get("connection", "").lower() != "close"

    def _arrived(self, request: Request, key: str) -> int:
        """Count the request; how often it came before."""
        stats, now = self._api.stats, time.monotonic()
        stats.max_concurrent = max(stats.max_concurrent, self._active)
        stats.arrivals.append((now, f"{request.method} {request.path}", key))
        stats.early_retries += now < self._deadlines.get(key, 0)
        self._deadlines = {body: end for body, end in self._deadlines.items() if now < end}
        stats.early_requests += bool(self._deadlines)
        if request.idempotency_key:
            stats.idempotency_keys.setdefault(key, []).append(request.idempotency_key)
        stats.seen[key] += 1
        return stats.seen[key] - 1

    def _is_meant(self, request: Request) -> bool:
        """Return True if transport faults may strike the request."""
        return bool(re.search(self._faults.only, f"{request.method} {request.path}"))

    def _meets(self, name: str, request: Request, key: str, before: int) -> bool:
        return self._is_meant(request) and self._api.strikes(name, key, before)

    def _reply(self, request: Request, key: str, before: int) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        given = self._idempotent and request.idempotency_key
        try:
            self._admit(request, key, before)
            result = self._replies.get(given) if given else None
            if result is None:
                result = self._api.route(request.method, request.target, request.body, key, before)
            if given:
                self._replies[given] = result
        except ApiError as error:
            if error.status == 503:
                return 503, {"Content-Type": "text/html"}, b"<html><h1>503 Service Unavailable</h1></html>"
            return error.status, error.headers, json.dumps({"error": error.body}).encode()
        if isinstance(result, bytes):
            return 200, {"Content-Type": "application/octet-stream"}, result
        return 200, {}, json.dumps(result).encode()

    def _admit(self, request: Request, key: str, before: int) -> None:
        """Raise the error that keeps the request from being looked at."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._key is not None and given != self._key:
            raise ApiError(401, f"Incorrect API key provided: {given}.", "invalid_api_key")
        if self._meets("rate_limited", request, key, before):
            told = self._faults.retry_after
            headers = {} if told is None else {"Retry-After": told}
            raise ApiError(429, "Rate limit reached.", "rate_limit_exceeded", headers)
        if self._meets("insufficient_quota", request, key, before):
            raise ApiError(429, "You exceeded your current quota.", "insufficient_quota")
        if self._meets("server_error", request, key, before):
            raise ApiError(500, "The server had an error.", None)
        if self._meets("unavailable", request, key, before):
            raise ApiError(503, "Unavailable.", None)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answer", required=True, metavar="MODULE:FUNCTION")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--print-port", action="store_true")
    parser.add_argument("--faults", type=json.loads, default={}, metavar="JSON", help="the fields of Faults")
    parser.add_argument("--key")
    parser.add_argument("--model", action="append", dest="models")
    parser.add_argument("--idempotent", action="store_true")
    given = parser.parse_args()
    module, _, function = given.answer.partition(":")
    answer = getattr(importlib.import_module(module), function)
    faults, models = Faults(**given.faults), given.models or ("gpt-test",)
    server = LlmServer(answer, faults, given.key, models, given.idempotent, given.port)
    with contextlib.suppress(KeyboardInterrupt), server:
        if given.print_port:
            print(urlsplit(server.url).port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
