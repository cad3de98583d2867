"""Read model answers from the bodies of API replies."""

from typing import Any, NamedTuple

from cadmus.errors import ModelOutputError


class Answer(NamedTuple):
    """The answer in a reply.

    Attributes:
        text: the whole text.
        fault: ``truncated`` if the token limit cut it off, ``refused`` if the model or a filter declined, or
            None.
        input_tokens, output_tokens: counted by the server, reasoning included; None if it did not count.
    """

    text: str
    fault: str | None
    input_tokens: int | None
    output_tokens: int | None


def read_reply(url: str, body: Any) -> Answer:
    """Read the answer in the body of a reply.

    Args:
        url: the endpoint, one of :data:`cadmus.llm.models.URLS`.
        body: the parsed JSON.

    Raises:
        ModelOutputError: the body does not have the shape of that endpoint's replies.
    """
    try:
        if url == "/v1/responses":
            text, finish_reason, refusal = _read_response(body)
        else:
            choice = body["choices"][0]
            message = choice["message"] if url == "/v1/chat/completions" else {"content": choice["text"]}
            finish_reason, refusal = choice["finish_reason"], message.get("refusal")
            text = message.get("content") or refusal
        if not isinstance(text, str | None):
            raise TypeError
        usage = body.get("usage") or {}
        input_tokens, output_tokens = (
            next((int(usage[name]) for name in names if usage.get(name) is not None), None)
            for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise ModelOutputError(f"not a reply of {url}") from None
    fault = "truncated" if finish_reason == "length" else None
    if refusal or finish_reason == "content_filter":
        fault = "refused"
    return Answer(text or "", fault, input_tokens, output_tokens)


def _read_response(body: Any) -> tuple[Any, str, Any]:
    """Return text, finish reason and refusal of a response."""
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    text = "".join(part["text"] for part in parts if part["type"] == "output_text")
    refusal = next((part["refusal"] for part in parts if part["type"] == "refusal"), None)
    if body["status"] == "completed":
        return text or refusal, "stop", refusal
    if body["status"] != "incomplete":
        raise ValueError
    reason = body["incomplete_details"]["reason"]
    return text, "length" if reason == "max_output_tokens" else reason, refusal
