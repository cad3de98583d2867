"""The OpenAI client: its settings from the environment, and server errors as one line.

``OPENAI_API_KEY`` holds the key, ``OPENAI_BASE_URL`` the server (OpenAI's by default). Neither messages nor
files contain the key.
"""

import os
from collections.abc import Collection
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import openai

from cadmus.errors import InputError
from cadmus.llm.replies import API_KEY, error_fields, redact

BASE_URL = "OPENAI_BASE_URL"
UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that a reply causes whose shape is not that of the client's types."""
FAILURES = (openai.OpenAIError, *UNREADABLE)
"""Exceptions that the client raises if a server fails."""
TIMEOUT = 900.0
"""Seconds for one request; reasoning over thousands of tokens takes minutes."""
RETRIES = 6
"""Retries of a request that costs nothing."""
_Client = TypeVar("_Client", openai.OpenAI, openai.AsyncOpenAI)


def create(kind: type[_Client], max_retries: int) -> _Client:
    """Return a client with the settings of the environment; anything that costs money needs no retries.

    Raises:
        InputError: the key is missing, or it or the address is malformed.
    """
    key = os.environ.get(API_KEY, "").strip()
    if not key:
        raise InputError(f"{API_KEY} is not set; set it (to any word if the server needs no key)")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{API_KEY}: has characters that a key cannot have; nothing was sent")
    url = os.environ.get(BASE_URL, "").strip()
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        if len(url.split()) > 1 or (
            url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0)
        ):
            raise ValueError
        client = kind(api_key=key, base_url=url or None, timeout=TIMEOUT, max_retries=max_retries)
        address(client)
    except Exception:
        raise InputError(
            f"{BASE_URL}: must be a URL such as http://localhost:8000/v1; nothing was sent"
        ) from None
    return client


def connect() -> openai.OpenAI:
    """Return a client that retries; anything that costs money needs ``with_options(max_retries=0)``.

    Raises:
        InputError: as :func:`create`.
    """
    return create(openai.OpenAI, RETRIES)


def address(client: openai.OpenAI | openai.AsyncOpenAI) -> str:
    """Return the address of a client's server, without credentials."""
    parts = urlsplit(str(client.base_url))
    host = parts.hostname or ""
    netloc = f"{host}:{parts.port}" if parts.port else host
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))


def describe(error: Exception) -> dict[str, Any]:
    """Return the code and message of a server error, without the key."""
    found = error_fields(getattr(error, "body", None) or {})
    message = found["message"] or str(getattr(error, "message", None) or error) or type(error).__name__
    cause = error.__cause__
    if cause is not None and isinstance(error, openai.APIConnectionError):
        message = f"{message.rstrip('.')}: {str(cause) or type(cause).__name__}"
    return {"code": found["code"], "message": redact(" ".join(message.split()))[:500]}


def fatal(error: Exception, server: str, model: str) -> InputError | None:
    """Return the error to stop with if the server would fail every other request too, else None."""
    status = getattr(error, "status_code", None)
    described = describe(error)
    if status in (401, 403):
        # The server's message may contain parts of the key.
        return InputError(f"{server}: rejects the key in {API_KEY} (status {status})")
    if status == 404:
        return InputError(f"{server}: does not know {model!r} or this endpoint: {described['message']}")
    if described["code"] == "insufficient_quota":
        return InputError(f"{server}: the quota of this key is used up: {described['message']}")
    return None


def check_models(client: openai.OpenAI, models: Collection[str]) -> None:
    """Check that the server accepts the key and has the models, before anything is sent.

    Raises:
        InputError: it does not, or cannot be reached.
    """
    server = address(client)
    try:
        known = {str(model.id) for model in client.models.list()}
    except openai.NotFoundError:
        # Some servers list no models.
        return
    except FAILURES as error:
        problem = fatal(error, server, "/models")
        raise problem or InputError(f"{server}: {describe(error)['message']}; nothing was sent") from None
    for model in models:
        if model not in known:
            few = ", ".join(sorted(known)[:8]) + (", …" if len(known) > 8 else "")
            raise InputError(f"{server}: has no model {model!r}, only {few or 'none'}; nothing was sent")
