"""Chat completions: the last message is the prompt of a completion, and the reply is a message."""

import json
from collections.abc import Iterator
from typing import Any

from cadmus.serve.protocol import ApiError, Request, check_fields, read_fields

IGNORED = ("metadata", "store", "tool_choice", "parallel_tool_calls", "service_tier")
"""Fields of a chat that have no effect here, whatever their value."""
UNSUPPORTED = ("logprobs", "top_logprobs", "response_format", "tools", "functions")
"""Fields that are only accepted without effect: null, false or an empty list."""


def read_chat(body: bytes, longest: int) -> tuple[Request, bool, bool]:
    """Parse and check the body of a chat request.

    Args:
        body: the request.
        longest: default of ``max_tokens``; a chat ends by itself.

    Returns:
        The request for completions, True if the reply is a stream, and True if the stream ends with the
        usage.

    Raises:
        ApiError: as :func:`cadmus.serve.protocol.read_request`, or the last message is not text of the user.
    """
    values = read_fields(body)
    for key in IGNORED:
        values.pop(key, None)
    for key in UNSUPPORTED:
        if values.pop(key, None):
            raise ApiError(f"{key}: not supported; leave it out", param=key)
    stream, options = bool(values.pop("stream", False)), values.pop("stream_options", None)
    limits = [values.pop(name, None) for name in ("max_completion_tokens", "max_tokens")]
    given = next((limit for limit in limits if limit is not None), longest)
    prompt = _last_text(values.pop("messages", None))
    usage = isinstance(options, dict) and bool(options.get("include_usage"))
    return check_fields({**values, "prompt": prompt, "max_tokens": given}), stream, usage


def as_chat(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the chat completion of a completion in OpenAI's shape."""
    return {
        **answer,
        "id": f"chat{answer['id']}",
        "object": "chat.completion",
        "choices": [_choice(choice, "message", choice["finish_reason"]) for choice in answer["choices"]],
    }


def as_stream(answer: dict[str, Any], usage: bool) -> Iterator[bytes]:
    """Yield the events of a completion as a stream: each choice whole, and, with ``usage``, the usage."""
    shared = {**answer, "id": f"chat{answer['id']}", "object": "chat.completion.chunk", "usage": None}
    events = [[_choice(choice, "delta", None)] for choice in answer["choices"]]
    events += [
        [{"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}]
        for choice in answer["choices"]
    ]
    chunks = [{**shared, "choices": choices} for choices in events]
    if usage:
        chunks.append({**shared, "choices": [], "usage": answer["usage"]})
    for chunk in chunks:
        yield f"data: {json.dumps(chunk)}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _choice(choice: dict[str, Any], name: str, finish_reason: str | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": choice["text"]}
    return {"index": choice["index"], name: message, "logprobs": None, "finish_reason": finish_reason}


def _last_text(messages: Any) -> str:
    """Return the text of the last message."""
    message = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(message, dict) or message.get("role") != "user":
        raise ApiError("messages: the last one must be the user's; its text is the prompt", param="messages")
    content = message.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts
    ):
        raise ApiError("messages: the content of the last one must be text", param="messages")
    return "".join(part["text"] for part in parts)
