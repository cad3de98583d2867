"""The official client of OpenAI's API, its key, and what goes wrong with a server, in one line.

``OPENAI_API_KEY`` holds the key and ``OPENAI_BASE_URL`` the server, which is OpenAI's when it is not set.
The key is in no message and no file: what a server says is cleaned of it.
"""

import json
import os
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import openai

from cadmus.errors import InputError

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
FAILURES = (openai.OpenAIError, json.JSONDecodeError)
"""What the client raises when a server fails it, also with a reply that is no JSON."""
TIMEOUT = 900.0
"""Seconds that one request may take; reasoning over thousands of tokens takes minutes."""
RETRIES = 6
"""How often a question that costs nothing is asked again after a failure of the server."""
_SHORTEST_KEY = 8
"""A shorter key is a word that stands in for one, which may be in any text."""


def options() -> dict[str, Any]:
    """What both kinds of clients are made with; they never send a request a second time by themselves.

    Raises:
        InputError: there is no key, or it or the address cannot be one.
    """
    key = os.environ.get(KEY, "").strip()
    if not key:
        raise InputError(f"{KEY} is not set; nothing was sent. For a server without keys, set it to any word")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{KEY} holds characters that no key has; nothing was sent")
    url = os.environ.get(BASE_URL, "").strip()
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{BASE_URL} is no address such as http://localhost:8000/v1; nothing was sent")
    return {"api_key": key, "base_url": url or None, "max_retries": 0, "timeout": TIMEOUT}


def server(client: openai.OpenAI | openai.AsyncOpenAI) -> str:
    """The address of a client's server, without what is secret in it."""
    parts = urlsplit(str(client.base_url))
    host = parts.hostname or ""
    netloc = f"{host}:{parts.port}" if parts.port else host
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))


def clean(text: str) -> str:
    """A text without the key, wherever it comes from."""
    key = os.environ.get(KEY, "").strip()
    return text.replace(key, f"[{KEY}]") if len(key) >= _SHORTEST_KEY else text


def said(error: Exception) -> dict[str, Any]:
    """What a server says in an error: its code and its message, without the key."""
    body = getattr(error, "body", None)
    found = body if isinstance(body, dict) else {}
    message = str(found.get("message") or getattr(error, "message", None) or error)
    cause = error.__cause__
    if cause is not None and isinstance(error, openai.APIConnectionError):
        message = f"{message.rstrip('.')}: {cause or type(cause).__name__}"
    return {"code": found.get("code"), "message": clean(" ".join(message.split()))[:500]}


def fatal(error: Exception, where: str, model: str) -> InputError | None:
    """The line to stop with, if nothing that is asked of this server would be answered; otherwise None."""
    status = getattr(error, "status_code", None)
    told = said(error)
    if status in (401, 403):
        # What the server says may have parts of the key in it.
        return InputError(f"{where} does not accept the key in {KEY} (status {status})")
    if status == 404:
        return InputError(f"{where} does not know {model!r} or this endpoint: {told['message']}")
    if told["code"] == "insufficient_quota":
        return InputError(f"{where}: the quota of this key is used up: {told['message']}")
    return None


def check_models(client: openai.OpenAI, models: Collection[str]) -> None:
    """Find out before anything is sent whether the server accepts the key and knows the models.

    Raises:
        InputError: it does not, or there is no server.
    """
    where = server(client)
    try:
        known = {model.id for model in client.with_options(max_retries=RETRIES).models.list()}
    except openai.NotFoundError:
        # Some servers list no models.
        return
    except FAILURES as error:
        problem = fatal(error, where, "/models")
        raise problem or InputError(f"{where}: {said(error)['message']}; nothing was sent") from None
    for model in models:
        if model not in known:
            few = ", ".join(sorted(known)[:8]) + (", …" if len(known) > 8 else "")
            raise InputError(f"{where} has no model {model!r}; it has {few or 'none'}; nothing was sent")
