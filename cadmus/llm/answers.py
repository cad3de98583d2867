"""What a reply says: the text of the answer, or why there is none, and the tokens that it took."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cadmus.errors import ModelOutputError

TRUNCATED = "truncated"
REFUSED = "refused"


class Answer(NamedTuple):
    """What a model wrote.

    Attributes:
        text: all of it.
        fault: ``truncated`` when the limit of tokens cut it off, ``refused`` when the model or a filter would
            not answer, otherwise None.
        input_tokens, output_tokens: what the server counted, reasoning included; None where it did not.
    """

    text: str
    fault: str | None
    input_tokens: int | None
    output_tokens: int | None


def read_reply(url: str, body: Any) -> Answer:
    """The answer in the body of a reply.

    Args:
        url: which of the endpoints of :data:`cadmus.llm.models.URLS` the reply is from.
        body: what JSON made of it.

    Raises:
        ModelOutputError: it is no reply of that endpoint.
    """
    try:
        text, fault = _READERS[url](body)
        usage = body.get("usage") or {}
        spent = [
            next((int(usage[name]) for name in names if usage.get(name) is not None), None)
            for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
        ]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise ModelOutputError(f"no reply of {url}") from None
    return Answer(text, fault, *spent)


def _chat(body: Any) -> tuple[str, str | None]:
    choice = body["choices"][0]
    message = choice["message"]
    refusal = message.get("refusal")
    return _text(message.get("content") or refusal), _fault(choice["finish_reason"], refusal)


def _completions(body: Any) -> tuple[str, str | None]:
    choice = body["choices"][0]
    return _text(choice["text"]), _fault(choice["finish_reason"], None)


def _responses(body: Any) -> tuple[str, str | None]:
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    refusal = next((part["refusal"] for part in parts if part["type"] == "refusal"), None)
    text = "".join(part["text"] for part in parts if part["type"] == "output_text")
    if body["status"] == "completed":
        return _text(text or refusal), _fault("stop", refusal)
    if body["status"] != "incomplete":
        raise ValueError("the response has not been given")
    reason = body["incomplete_details"]["reason"]
    return _text(text), _fault("length" if reason == "max_output_tokens" else reason, refusal)


def _text(text: Any) -> str:
    """Of an answer that has no text at all, the empty one."""
    if text is not None and not isinstance(text, str):
        raise TypeError("the answer is no text")
    return text or ""


def _fault(finish_reason: str, refusal: str | None) -> str | None:
    if refusal or finish_reason == "content_filter":
        return REFUSED
    return TRUNCATED if finish_reason == "length" else None


_READERS: dict[str, Callable[[Any], tuple[str, str | None]]] = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _completions,
    "/v1/responses": _responses,
}
