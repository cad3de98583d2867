"""Requests in OpenAI's batch files: uploaded, created, polled, and both files of results read."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import openai

from cadmus.errors import InputError, ModelOutputError
from cadmus.llm import client as clients
from cadmus.llm.answers import read_reply
from cadmus.llm.replies import Replies
from cadmus.llm.requests import Request

MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
"""A batch holds at most 50,000 requests and 200 MB at OpenAI."""
ENDED = {"completed", "failed", "expired", "cancelled"}
"""The states of a batch in which nothing more comes of it."""
_LABEL = "cadmus_requests"
"""Metadata of a batch that tells which requests are in it."""
_LOOKED_THROUGH = 500
_ATTEMPTS = 5


def submit(client: openai.OpenAI, requests: Sequence[Request], replies: Replies) -> list[str]:
    """Create batches of requests of one model, and write down which are in each.

    A batch that the server has of just these requests, which a submission that was killed could not write
    down any more, is taken for the new one.

    Returns:
        The ids of the batches.

    Raises:
        InputError: the server does not take them; those that it took before are written down.
    """
    found = []
    for part in _parts(requests):
        keys = [request.key for request in part]
        label = hashlib.sha256("".join(keys).encode()).hexdigest()[:32]
        batch = _find(client, label, replies) or _create(client, part, label, replies)
        replies.add(batch=batch, keys=keys, server=clients.server(client))
        found.append(batch)
    return found


def collect(
    client: openai.OpenAI, requests: Mapping[str, Request], replies: Replies
) -> tuple[Counter[str], dict[str, str]]:
    """Read the results of the batches of one model that have ended, and write them down.

    Returns:
        What the lines of the results were, as :func:`take_lines` tells, and how many requests of batches that
        have ended are ``unanswered``; and how far each batch is, by id.

    Raises:
        InputError: the server does not answer.
    """
    where = clients.server(client)
    patient = client.with_options(max_retries=clients.RETRIES)
    lines: Counter[str] = Counter()
    states = {}
    for batch_id, keys in list(replies.batches.items()):
        try:
            batch = patient.batches.retrieve(batch_id)
            texts = [
                patient.files.content(file_id).text
                for file_id in (batch.output_file_id, batch.error_file_id)
                # Some servers write an empty text where there is no file.
                if batch.status in ENDED and file_id
            ]
        except clients.FAILURES as error:
            told = clients.said(error)
            raise clients.fatal(error, where, batch_id) or InputError(
                f"{where}: batch {batch_id}: {told['message']}; run it again"
            ) from None
        done = batch.request_counts.completed + batch.request_counts.failed if batch.request_counts else 0
        states[batch_id] = f"{batch.status}, {done:,} of {len(keys):,}"
        if batch.errors and batch.errors.data:
            states[batch_id] += f": {clients.clean(str(batch.errors.data[0].message))}"
        if batch.status not in ENDED:
            continue
        own = {key: requests[key] for key in keys if key in requests}
        for text in texts:
            lines += take_lines(text, own, lambda _: replies, where)
        # Behind the results: a kill in between reads them once more.
        replies.add(ended=batch_id, status=batch.status)
        lines["unanswered"] += sum(not replies.settles(key) for key in own)
    return lines, states


def take_lines(
    text: str, requests: Mapping[str, Request], replies_of: Callable[[str], Replies], where: str
) -> Counter[str]:
    """Write down the results in a file, matched by ``custom_id``: the order of the lines says nothing.

    Args:
        text: the lines, as OpenAI's batches and ``vllm run-batch`` write them.
        requests: those that may be answered there, by key.
        replies_of: where those of a model are written down.
        where: who answered.

    Returns:
        How many lines were ``answers``, ``errors``, ``repeated`` (the request has its answer already),
        ``strangers`` (to no request of these) and ``malformed``.
    """
    lines: Counter[str] = Counter()
    for line in clients.clean(text).splitlines():
        if not line.strip():
            continue
        try:
            key, status, body, error = _result(json.loads(line))
        except (AttributeError, KeyError, TypeError, ValueError):
            lines["malformed"] += 1
            continue
        request = requests.get(key or "")
        if request is None:
            lines["strangers"] += 1
            continue
        replies = replies_of(request.model)
        if replies.settles(request.key):
            lines["repeated"] += 1
        elif status == 200:
            try:
                read_reply(request.url, body)
            except ModelOutputError:
                lines["malformed"] += 1
                continue
            replies.add(key=key, server=where, status=status, body=body)
            lines["answers"] += 1
        else:
            replies.add(key=key, server=where, status=status, error=error)
            lines["errors"] += 1
    return lines


def _result(line: dict[str, Any]) -> tuple[str | None, int | None, Any, dict[str, Any]]:
    """Key, status, body and error of one line of results."""
    response, error = line.get("response") or {}, line.get("error")
    body = response.get("body")
    status = response.get("status_code")
    if not error and status != 200:
        # What the server says stands in the body where the request itself was refused.
        error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {"message": str(error)}
    told = {"code": error.get("code"), "message": str(error.get("message"))[:500]}
    return line.get("custom_id"), None if status == 200 and line.get("error") else status, body, told


def _parts(requests: Sequence[Request]) -> Iterator[list[Request]]:
    part: list[Request] = []
    size = 0
    for request in requests:
        length = len(request.line().encode())
        if part and (len(part) == MOST_REQUESTS or size + length > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(request)
        size += length
    if part:
        yield part


def _find(client: openai.OpenAI, label: str, replies: Replies) -> str | None:
    """The batch of a label that is not written down."""
    try:
        batches: Iterable[Any] = client.with_options(max_retries=clients.RETRIES).batches.list(limit=100)
        for batch in islice(batches, _LOOKED_THROUGH):
            known = batch.id in replies.batches or batch.id in replies.ended
            if (batch.metadata or {}).get(_LABEL) == label and not known and batch.status != "failed":
                return str(batch.id)
    except openai.NotFoundError:
        # A server that lists no batches.
        return None
    except clients.FAILURES as error:
        raise _problem(client, error) from None
    return None


def _create(client: openai.OpenAI, requests: Sequence[Request], label: str, replies: Replies) -> str:
    data = "".join(request.line() for request in requests).encode()
    patient = client.with_options(max_retries=clients.RETRIES)
    for attempt in range(_ATTEMPTS):
        try:
            file = patient.files.create(file=(f"cadmus-{label}.jsonl", data), purpose="batch")
            batch = client.batches.create(
                input_file_id=file.id,
                endpoint=requests[0].url,  # type: ignore[arg-type]
                completion_window="24h",
                metadata={_LABEL: label},
            )
        except (openai.APIConnectionError, openai.InternalServerError, json.JSONDecodeError) as error:
            if attempt == _ATTEMPTS - 1:
                raise _problem(client, error) from None
            time.sleep(2**attempt / 2)
            # It may have been created all the same.
            found = _find(client, label, replies)
            if found:
                return found
        except openai.OpenAIError as error:
            raise _problem(client, error) from None
        else:
            return batch.id
    raise AssertionError("the last attempt returns or raises")


def _problem(client: openai.OpenAI, error: Exception) -> InputError:
    where = clients.server(client)
    return clients.fatal(error, where, "batches") or InputError(
        f"{where}: the batch could not be created: {clients.said(error)['message']}; run it again"
    )
