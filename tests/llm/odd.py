"""Odd replies with status 200, or another status of success: each is charged, and few can be read."""

import gzip
import json
import threading
from collections.abc import Callable

DEEP = 100_000
"""Levels of nested lists."""


def http(content: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return the bytes of a reply after which the connection is closed."""
    fields = ["Connection: close", f"Content-Length: {len(content) if length is None else length}", *headers]
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode() + content


def changed(change: Callable[[dict], object]) -> Callable[[bytes], bytes]:
    """Return a kind whose JSON is that of a good reply with a change; what ``change`` returns replaces it."""

    def odd(content: bytes) -> bytes:
        reply = json.loads(content)
        replacement = change(reply)
        return http(json.dumps(reply if replacement is None else replacement).encode())

    return odd


def with_content(of: Callable[[str], object]) -> Callable[[bytes], bytes]:
    """Return a kind with other content of the message."""

    def change(reply: dict) -> None:
        message = reply["choices"][0]["message"]
        message["content"] = of(message["content"])

    return changed(change)


def with_tokens(count: str) -> Callable[[bytes], bytes]:
    """Return a kind with other counts of tokens, as JSON."""

    def odd(content: bytes) -> bytes:
        reply = json.loads(content)
        reply["usage"] = "USAGE"
        usage = f'{{"prompt_tokens": {count}, "completion_tokens": {count}}}'
        return http(json.dumps(reply).replace('"USAGE"', usage).encode())

    return odd


def events(content: bytes) -> bytes:
    """Return server-sent events, as for a streamed reply."""
    return http(b"data: " + content + b"\n\ndata: [DONE]\n\n", "Content-Type: text/event-stream")


MALFORMED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: http(b""),
    "HTML": lambda content: http(b"<html>Please log in</html>", "Content-Type: text/html"),
    "half of the JSON": lambda content: http(content[: len(content) // 2]),
    "connection lost halfway": lambda content: http(content[: len(content) // 2], length=len(content)),
    "connection lost before the body": lambda content: http(b"", length=len(content)),
    "null": lambda content: http(b"null"),
    "a list": lambda content: http(b"[" + content + b"]"),
    "a text": lambda content: http(b'"<"'),
    "an error with status 200": lambda content: http(b'{"error": {"message": "no", "code": 500}}'),
    "no choices": changed(lambda reply: reply.update(choices=[])),
    "choices null": changed(lambda reply: reply.update(choices=None)),
    "message null": changed(lambda reply: reply["choices"][0].update(message=None)),
    "content a number": with_content(lambda text: 7),
    "a part without text": with_content(lambda text: [{"type": "text"}]),
    "no finish reason": changed(lambda reply: reply["choices"][0].pop("finish_reason") and None),
    "deep": lambda content: http(b"[" * DEEP + b"]" * DEEP),
    "not UTF-8": lambda content: http(content.replace(b'"id": "', b'"id": "\xff')),
    "digits without end": with_tokens("9" * 10_000),
    "zeros": lambda content: http(bytes(100)),
    "events": events,
    "broken gzip": lambda content: http(gzip.compress(content)[:-20], "Content-Encoding: gzip"),
    "unknown encoding": lambda content: http(content, "Content-Encoding: cadmus"),
    "status 202": lambda content: http(b"", status="202 Accepted"),
    "status 204": lambda content: http(b"", status="204 No Content"),
}
"""Kinds that have no known shape."""
UNPARSED = {"a lone surrogate": with_content(lambda text: text + "\ud800")}
"""Kinds that hold a text that is not an answer."""
UNCOUNTED = {
    "1e999 tokens": with_tokens("1e999"),
    "-5 tokens": with_tokens("-5"),
    "NaN tokens": with_tokens("NaN"),
    "usage a list": changed(lambda reply: reply.update(usage=[1])),
}
"""Kinds that hold an answer whose tokens are not counted."""
READABLE = {
    "a list of parts": with_content(lambda text: [{"type": "text", "text": text}]),
    "a lone surrogate in the id": changed(lambda reply: reply.update(id="\udfff")),
    "gzip": lambda content: http(gzip.compress(content), "Content-Encoding: gzip"),
    "UTF-8 with a byte order mark": lambda content: http(b"\xef\xbb\xbf" + content),
    "text/plain": lambda content: http(content, "Content-Type: text/plain"),
}
"""Kinds that hold an answer."""
KINDS = MALFORMED | UNPARSED | UNCOUNTED | READABLE


class Odd:
    """Replies of every kind, each to one request, with ordinary replies in between.

    Attributes:
        kinds: the kind of each reply, by the key of its request.
        sent: what was replied, by the key of its request.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.sent: dict[str, bytes] = {}
        self._left = list(KINDS)
        self._number = 0
        self._lock = threading.Lock()

    def __call__(self, key: str, content: bytes) -> bytes | None:
        with self._lock:
            self._number += 1
            if self._number % 2 and self._left and key not in self.kinds:
                kind = self.kinds[key] = self._left.pop(0)
                self.sent[key] = KINDS[kind](content)
                return self.sent[key]
        return None
