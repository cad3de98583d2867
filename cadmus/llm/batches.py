"""Requests in OpenAI's batch files: upload, creation, polling and results."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import openai
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from cadmus.errors import InputError
from cadmus.llm.client import FAILURES, UNREADABLE, address, describe, fatal
from cadmus.llm.comparison import Comparison
from cadmus.llm.replies import Replies, redact, take_results
from cadmus.llm.requests import Request

MAX_REQUESTS = 50_000
MAX_BYTES = 190_000_000
"""OpenAI's limits for one batch are 50,000 requests and 200 MB."""
ENDED = {"completed", "failed", "expired", "cancelled"}
"""Final states of a batch."""
_LABEL = "cadmus_requests"
"""Metadata of a batch that identifies its requests."""
_SEARCHED = 500
"""Newest batches that are searched for a label."""
_ATTEMPTS = 5


def submit(client: openai.OpenAI, comparison: Comparison, name: str) -> list[str]:
    """Create batches of all requests of a model that are not yet sent, and record them in its ledger.

    If a killed submission created a batch of the same requests without recording it, that batch is used.

    Returns:
        The ids of the batches.

    Raises:
        InputError: the cost could exceed ``llm.max_cost_usd`` (nothing is sent), or the server fails
            (batches created before are recorded).
    """
    comparison.check_cap([name])
    replies = comparison.replies[name]
    batches = []
    for part in _parts(comparison.to_send(name)):
        batches.append(_find_or_create(client, part, replies))
        replies.add(batch=batches[-1], keys=[request.key for request in part], server=address(client))
    return batches


def collect(client: openai.OpenAI, comparison: Comparison, name: str) -> tuple[Counter[str], dict[str, str]]:
    """Store the results of all batches of a model that have ended.

    Returns:
        Numbers of result lines of each kind (see :func:`cadmus.llm.replies.take_results`), with
        ``unanswered`` for requests without a result, which count as ``malformed`` if some lines name no
        request; and the state of each batch, by id.

    Raises:
        InputError: the server fails.
    """
    server = address(client)
    replies, requests = comparison.replies[name], comparison.requests[name]
    lines: Counter[str] = Counter()
    states = {}
    for batch_id, keys in list(replies.batches.items()):
        try:
            batch = client.batches.retrieve(batch_id)
            texts = [
                client.files.content(file_id).content.decode("utf-8", "surrogateescape")
                for file_id in (batch.output_file_id, batch.error_file_id)
                # Some servers have "" for a file that does not exist.
                if batch.status in ENDED and file_id
            ]
            done = batch.request_counts.completed + batch.request_counts.failed if batch.request_counts else 0
            states[batch_id] = f"{batch.status}, {done:,} of {len(keys):,}"
            if batch.errors and batch.errors.data:
                states[batch_id] += f": {redact(str(batch.errors.data[0].message))}"
        except FAILURES as error:
            raise _as_input_error(error, server, f"batch {batch_id}") from None
        if batch.status not in ENDED:
            continue
        own = {key: requests[key] for key in keys if key in requests}
        named: set[str] = set()
        unreadable = 0
        for text in texts:
            if text.strip() and not any(line.lstrip().startswith("{") for line in text.split("\n")):
                raise InputError(
                    f"{server}: batch {batch_id}: its results are not JSON lines; run the command again"
                )
            found, keys_in_file = take_results(
                text, own, comparison.replies, server, replies, set(keys) - own.keys()
            )
            lines += found
            named |= keys_in_file
            unreadable += found["unreadable"]
        if unreadable:
            # Each request without a line may be that of such a line.
            for key in own.keys() - named:
                if not replies.settles(key):
                    replies.add(key=key, server=server, status=200, line="")
                    lines["malformed"] += 1
        # After the results: if the process is killed in between, they are read again.
        replies.add(ended=batch_id, status=batch.status)
        lines["unanswered"] += sum(not replies.settles(key) for key in own)
    return lines, states


def _parts(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Split requests into parts within the limits of a batch."""
    part: list[Request] = []
    size = 0
    for request in requests:
        length = len(request.line().encode())
        if part and (len(part) == MAX_REQUESTS or size + length > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(request)
        size += length
    if part:
        yield part


def _find_or_create(client: openai.OpenAI, requests: Sequence[Request], replies: Replies) -> str:
    """Return the id of a batch of these requests that the ledger does not have, creating it if needed."""
    label = hashlib.sha256("".join(request.key for request in requests).encode()).hexdigest()[:32]
    data = "".join(request.line() for request in requests).encode()

    sent = False

    def attempt() -> str:
        nonlocal sent
        # Also after a failure: the batch may have been created all the same.
        try:
            for batch in islice(client.batches.list(limit=100), _SEARCHED):
                recorded = batch.id in replies.batches or batch.id in replies.ended
                labelled = (batch.metadata or {}).get(_LABEL) == label
                if labelled and not recorded and batch.status != "failed":
                    return batch.id
        except openai.NotFoundError:
            # Some servers do not list batches.
            if sent:
                raise InputError(
                    f"{address(client)}: the batch may have been created, and the server does not list "
                    "batches; look for it there before you run the command again"
                ) from None
        file = client.files.create(file=(f"cadmus-{label}.jsonl", data), purpose="batch")
        sent = True
        created = client.with_options(max_retries=0).batches.create(
            input_file_id=file.id,
            endpoint=requests[0].url,  # type: ignore[arg-type]
            completion_window="24h",
            metadata={_LABEL: label},
        )
        if not isinstance(created.id, str):
            raise TypeError("the new batch has no id")
        return created.id

    passing = (openai.APIConnectionError, openai.InternalServerError, *UNREADABLE)
    retrying = Retrying(
        retry=retry_if_exception_type(passing),
        wait=wait_exponential(multiplier=0.5),
        stop=stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    try:
        return retrying(attempt)
    except FAILURES as error:
        raise _as_input_error(error, address(client), "the batch could not be created") from None


def _as_input_error(error: Exception, server: str, problem: str) -> InputError:
    message = f"{server}: {problem}: {describe(error)['message']}; run the command again"
    return fatal(error, server, "batches") or InputError(message)
