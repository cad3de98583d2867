"""Read model answers from the stored replies of the API."""

import json
import re
import zlib
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cadmus.llm import ModelOutputError

MOST_BYTES = 1 << 26
"""Longest reply after decompression."""
MOST_TOKENS = 10**9
"""A larger count is not a count of tokens."""
_COMPRESSED = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKENS = TypeAdapter(Annotated[int, Field(ge=0, le=MOST_TOKENS)])


class Answer(NamedTuple):
    """The answer in a reply.

    Attributes:
        text: the whole text, with U+FFFD for surrogates, which no file can hold.
        fault: ``truncated`` if the token limit cut it off, ``refused`` if the model or a filter declined, or
            None.
        input_tokens, output_tokens: counted by the server, reasoning included; None if it did not count.
    """

    text: str
    fault: str | None
    input_tokens: int | None
    output_tokens: int | None


class _Shape(BaseModel):
    """Part of a reply: the fields that are read, and any others."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=True)


class _Part(_Shape):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Message(_Shape):
    content: str | list[_Part] | None = None
    refusal: str | None = None


class _Choice(_Shape):
    message: _Message
    finish_reason: str | None


class _Chat(_Shape):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _TextChoice(_Shape):
    text: str | None
    finish_reason: str | None


class _Completion(_Shape):
    choices: Annotated[list[_TextChoice], Field(min_length=1)]


class _Details(_Shape):
    reason: str


class _Output(_Shape):
    content: list[_Part]


class _Response(_Shape):
    status: Literal["completed", "incomplete"]
    output: list[dict[str, Any]]
    incomplete_details: _Details | None = None


def read_body(raw: bytes, encoding: str = "") -> Any:
    """Parse the body of a reply.

    Args:
        raw: the bytes as they came.
        encoding: the header ``Content-Encoding``.

    Raises:
        ModelOutputError: the body is not JSON.
    """
    try:
        if encoding not in ("", "identity"):
            stream = zlib.decompressobj(_COMPRESSED[encoding])
            raw = stream.decompress(raw, MOST_BYTES)
            if not stream.eof:
                raise ValueError
        return json.loads(raw)
    except (KeyError, RecursionError, ValueError, zlib.error):
        raise ModelOutputError("not a JSON reply") from None


def read_reply(url: str, body: Any) -> Answer:
    """Read the answer in the body of a reply.

    Args:
        url: the endpoint, one of :data:`cadmus.llm.models.URLS`.
        body: the parsed JSON.

    Raises:
        ModelOutputError: the body does not have the shape of that endpoint's replies.
    """
    text: str | None
    finish_reason: str | None
    try:
        if url == "/v1/responses":
            text, finish_reason, refusal = _read_response(_Response.model_validate(body))
        elif url == "/v1/chat/completions":
            chosen = _Chat.model_validate(body).choices[0]
            text, refusal = _read_content(chosen.message.content)
            finish_reason, refusal = chosen.finish_reason, chosen.message.refusal or refusal
        else:
            choice = _Completion.model_validate(body).choices[0]
            text, finish_reason, refusal = choice.text or "", choice.finish_reason, None
    except ValueError:
        raise ModelOutputError(f"not a reply of {url}") from None
    fault = "truncated" if finish_reason == "length" else None
    if refusal or finish_reason == "content_filter":
        fault = "refused"
    usage = body.get("usage")
    return Answer(
        _SURROGATE.sub("\ufffd", text or refusal or ""),
        fault,
        _count(usage, "prompt_tokens", "input_tokens"),
        _count(usage, "completion_tokens", "output_tokens"),
    )


def _count(usage: Any, *names: str) -> int | None:
    """Return the first count of tokens with one of these names, or None if it is not a count."""
    given = [usage[name] for name in names if usage.get(name) is not None] if isinstance(usage, dict) else []
    try:
        return _TOKENS.validate_python(given[0]) if given else None
    except ValidationError:
        return None


def _read_content(content: str | list[_Part] | None) -> tuple[str, str | None]:
    """Return text and refusal of the content of a message.

    Raises:
        ValueError: a text part has no text.
    """
    if not isinstance(content, list):
        return content or "", None
    texts = [part.text for part in content if part.type in ("text", "output_text")]
    if None in texts:
        raise ValueError("no text")
    refusals = (part.refusal for part in content if part.type == "refusal")
    return "".join(map(str, texts)), next(refusals, None)


def _read_response(response: _Response) -> tuple[str, str, str | None]:
    """Return text, finish reason and refusal of a response."""
    messages = [item for item in response.output if item.get("type") == "message"]
    parts = [part for item in messages for part in _Output.model_validate(item).content]
    text, refusal = _read_content(parts)
    if response.status == "completed":
        return text, "stop", refusal
    if response.incomplete_details is None:
        raise ValueError("no reason")
    reason = response.incomplete_details.reason
    return text, "length" if reason == "max_output_tokens" else reason, refusal
