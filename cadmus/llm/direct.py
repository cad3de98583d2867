"""Requests sent one by one, many at a time, to any server that speaks the OpenAI API."""

import asyncio
import contextlib
import email.utils
import json
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import openai
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    RetryError,
    retry_if_exception_type,
    wait_exponential,
    wait_random,
)

from cadmus.common.progress import progress
from cadmus.config import Llm
from cadmus.errors import InputError, ModelOutputError
from cadmus.llm.answers import read_reply
from cadmus.llm.client import address, describe, fatal, options
from cadmus.llm.comparison import Comparison
from cadmus.llm.replies import FINAL, Replies, redact
from cadmus.llm.requests import Request

ATTEMPTS = 8
"""Attempts of a request if the server fails."""
RATE_LIMITED_ATTEMPTS = 50
"""Attempts of a request that the server rejects because there are too many (status 429)."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the second attempt, and before any later one, unless the server sets a time."""
LONGEST_WAIT = 3600.0
"""Longest Retry-After that is waited for, in seconds."""
REJECTIONS = 20
"""Rejected requests to a model, with none answered, after which sending stops."""


def send(comparison: Comparison, names: Sequence[str], echo: Callable[[str], object] = print) -> None:
    """Send all requests of some models that are not yet sent, and store every reply as it arrives.

    SIGINT and SIGTERM stop it as soon as the requests under way are answered. The ledgers of the models must
    be open for writing.

    Args:
        comparison: the comparison, with prepared requests.
        names: the names of the models.
        echo: prints a line.

    Raises:
        InputError: the cost could exceed ``llm.max_cost_usd`` (nothing is sent), the server rejects
            everything, or some requests are left without an answer (replies so far are kept).
    """
    comparison.check_cap(names)
    requests = [request for name in names for request in comparison.to_send(name)]
    sender = _Sender(requests, comparison.replies, comparison.config.llm)
    asyncio.run(sender.run())
    answered, rejected = sum(sender.answered.values()), sum(sender.rejected.values())
    echo(f"{answered:,} answered, {rejected:,} rejected, {sender.failed:,} failed")
    left = len(requests) - answered - rejected
    if sender.interrupted:
        raise InputError(f"stopped with {left:,} requests left; run the command again to resume")
    if left:
        raise InputError(
            f"{left:,} of {len(requests):,} requests have no answer (last failure: {sender.last_failure}); "
            "run the command again to resend them"
        )


class _Retryable(Exception):
    """A failed request that may be sent again, after a pause of some seconds if the server asks for one."""

    def __init__(self, rate_limited: bool, pause: float) -> None:
        self.rate_limited = rate_limited
        self.pause = pause


class _Sender:
    """Workers that share the pending requests, the time of the next one and a reason to stop."""

    def __init__(self, requests: list[Request], replies: Mapping[str, Replies], settings: Llm) -> None:
        self.requests, self.replies = requests, replies
        self.concurrency = settings.concurrency
        self.interval = 60 / settings.requests_per_minute if settings.requests_per_minute else 0.0
        self.next_turn = 0.0
        self.stop = asyncio.Event()
        self.answered: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.failed = 0
        self.last_failure = ""
        self.interrupted = False
        self.problem: InputError | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        pending = iter(self.requests)
        async with openai.AsyncOpenAI(**options(), max_retries=0) as client:
            self.server = address(client)
            self.endpoints: dict[str, Callable[..., Awaitable[Any]]] = {
                "/v1/chat/completions": client.chat.completions.with_raw_response.create,
                "/v1/completions": client.completions.with_raw_response.create,
                "/v1/responses": client.responses.with_raw_response.create,
            }
            with progress("requests", total=len(self.requests)) as bar:
                await asyncio.gather(*(self._work(pending, bar) for _ in range(self.concurrency)))
        if self.problem is not None:
            raise self.problem

    def _interrupt(self) -> None:
        self.interrupted = True
        self.stop.set()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            # A second signal kills.
            loop.remove_signal_handler(number)

    async def _work(self, pending: Iterable[Request], bar: Any) -> None:
        for request in pending:
            if self.stop.is_set():
                return
            await self._send(request)
            bar.update()

    async def _turn(self) -> bool:
        """Wait until a request may be sent; return False if sending stops."""
        while not self.stop.is_set():
            now = time.monotonic()
            if now >= self.next_turn:
                if self.interval:
                    self.next_turn = now + self.interval
                return True
            await self._sleep(self.next_turn - now)
        return False

    async def _sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until sending stops."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)

    async def _send(self, request: Request) -> None:
        """Send a request until it is settled, has failed too often, or sending stops."""
        failures: Counter[bool] = Counter()
        backoff = wait_exponential(FIRST_PAUSE, LONGEST_PAUSE) + wait_random(max=FIRST_PAUSE)

        def failure(state: RetryCallState) -> _Retryable:
            error = state.outcome and state.outcome.exception()
            assert isinstance(error, _Retryable)
            return error

        def exhausted(state: RetryCallState) -> bool:
            failures[failure(state).rate_limited] += 1
            return failures[True] >= RATE_LIMITED_ATTEMPTS or failures[False] >= ATTEMPTS

        def hold_all(state: RetryCallState) -> None:
            if failure(state).rate_limited:
                self.next_turn = max(self.next_turn, time.monotonic() + state.upcoming_sleep)

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Retryable),
            wait=lambda state: failure(state).pause or backoff(state),
            stop=exhausted,
            before_sleep=hold_all,
            sleep=self._sleep,
        )
        try:
            await retrying(self._attempt, request)
        except RetryError:
            self.failed += 1

    async def _attempt(self, request: Request) -> None:
        """Send a request once and record what comes back; raise _Retryable if another attempt may succeed."""
        if not await self._turn():
            return
        replies = self.replies[request.model]
        replies.add(sent=request.key)
        # A server that knows this header answers and charges a request once, even if the connection is lost.
        header = {"Idempotency-Key": request.key}
        try:
            raw = await self.endpoints[request.url](**request.body, extra_headers=header)
            body = json.loads(redact(raw.text))
            read_reply(request.url, body)
        except (openai.OpenAIError, ModelOutputError, json.JSONDecodeError) as error:
            self._failed(request, error)
        else:
            replies.add(key=request.key, server=self.server, status=200, body=body)
            self.answered[request.model] += 1

    def _failed(self, request: Request, error: Exception) -> None:
        """Record a failure; stop if others would fail too, raise _Retryable if this one may yet succeed."""
        status, described = getattr(error, "status_code", None), describe(error)
        # Recorded, or the request would count as sent without any reply.
        self.replies[request.model].add(key=request.key, server=self.server, status=status, error=described)
        model, message = request.body["model"], described["message"]
        pause = retry_after(error) if isinstance(error, openai.APIStatusError) else 0.0
        problem = fatal(error, self.server, model)
        if status in FINAL:
            self.rejected[request.model] += 1
            if self.rejected[request.model] >= REJECTIONS and not self.answered[request.model]:
                problem = InputError(f"{self.server}: rejects every request to {model!r}: {message}")
        if pause > LONGEST_WAIT:
            problem = InputError(
                f"{self.server}: asks to wait {pause:.0f} s: {message}; run the command then"
            )
        if problem is not None:
            self.problem = self.problem or problem
            self.stop.set()
        elif status not in FINAL:
            self.last_failure = f"{message} (status {status})" if status else message
            raise _Retryable(status == 429, pause)


def retry_after(error: openai.APIStatusError) -> float:
    """Return the seconds that a server asks to wait, from any form of the header, or 0."""
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    date = email.utils.parsedate_tz(headers.get("retry-after"))
    return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0
