"""Requests sent one by one, many at a time, to any server that speaks the OpenAI API."""

import asyncio
import contextlib
import email.utils
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
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

from cadmus.errors import InputError, Interrupted
from cadmus.llm.client import BASE_URL, TIMEOUT, address, create, describe, fatal
from cadmus.llm.comparison import Comparison
from cadmus.llm.costs import maximum_usd, spent_usd
from cadmus.llm.replies import FINAL, TIMED_OUT, redact
from cadmus.llm.requests import Request
from cadmus.tools import progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ATTEMPTS = 8
"""Attempts of a request if the server fails."""
RATE_LIMITED_ATTEMPTS = 50
"""Attempts of a request that the server rejects because there are too many (status 429)."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the second attempt, and before any later one, unless the server sets a time."""
LONGEST_WAIT = 3600.0
"""Longest Retry-After that is waited for, in seconds."""
REJECTIONS = 20
"""Rejected requests to a model, or malformed replies, after which sending stops if none is answered."""
MOST_BYTES = 1 << 24
"""Longest reply; the rest of a longer one is not received."""


def send(comparison: Comparison, names: Sequence[str], echo: Callable[[str], object] = print) -> None:
    """Send all requests of some models that are not yet sent, and store every reply as it arrives.

    Everything that comes with a status of success is a reply: it is stored before it is read, and its request
    is settled whether it can be read or not.

    SIGINT and SIGTERM stop it as soon as the requests under way are answered. The ledgers of the models must
    be open for writing.

    Args:
        comparison: the comparison, with prepared requests.
        names: the names of the models.
        echo: prints a line.

    Raises:
        InputError: the cost could exceed ``llm.max_cost_usd`` (nothing is sent), the server rejects
            everything, or some requests are left without an answer (replies so far are kept).
        Interrupted: SIGINT or SIGTERM; the replies so far are kept.
    """
    sender = _Sender(comparison, names)
    requests = sender.requests
    try:
        asyncio.run(sender.run())
    finally:
        counts = (sender.answered, sender.rejected, sender.malformed)
        answered, rejected, malformed = (sum(count.values()) for count in counts)
        echo(
            f"{answered:,} answered, {rejected:,} rejected, {sender.failed:,} failed, {malformed:,} malformed"
        )
    left = len(requests) - answered - rejected - malformed
    if sender.interrupted:
        raise Interrupted(f"stopped with {left:,} requests left; run the command again to resume")
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
    """Workers that share the pending requests, the time of the next one, USD left and a reason to stop."""

    def __init__(self, comparison: Comparison, names: Sequence[str]) -> None:
        settings = comparison.config.llm
        # For sending requests again after time-outs: each may be charged.
        self.usd = comparison.check_cap(names)
        self.requests = [request for name in names for request in comparison.to_send(name)]
        self.replies = comparison.replies
        self.models = {model.name: model for model in comparison.models}
        self.concurrency = settings.concurrency
        self.interval = 60 / settings.requests_per_minute if settings.requests_per_minute else 0.0
        self.next_turn = 0.0
        self.stop = asyncio.Event()
        self.answered: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.failed = 0
        self.last_failure = ""
        self.interrupted = False
        self.problem: InputError | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._interrupt)
        pending = iter(self.requests)
        async with create(openai.AsyncOpenAI, 0) as client:
            self.server = address(client)
            # Streamed, for the bytes of a reply that breaks off or that the client cannot read.
            self.endpoints: dict[str, Callable[..., AbstractAsyncContextManager[Any]]] = {
                "/v1/chat/completions": client.chat.completions.with_streaming_response.create,
                "/v1/completions": client.completions.with_streaming_response.create,
                "/v1/responses": client.responses.with_streaming_response.create,
            }
            with progress("requests", total=len(self.requests)) as bar:
                await asyncio.gather(*(self._work(pending, bar) for _ in range(self.concurrency)))
        if self.problem is not None:
            raise self.problem

    def _interrupt(self) -> None:
        self.interrupted = True
        self.stop.set()
        loop = asyncio.get_running_loop()
        # A second signal does not wait for the requests under way.
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    async def _work(self, pending: Iterable[Request], bar: Any) -> None:
        for request in pending:
            if self.stop.is_set():
                return
            try:
                await self._send(request)
            except InputError as error:
                # The ledger cannot be written. The other workers still wait for their replies.
                self._stop(error)
            bar.update()

    def _stop(self, problem: InputError) -> None:
        self.problem = self.problem or problem
        self.stop.set()

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
        # Asked again for another reply, it needs another one.
        again = replies.discarded[request.key]
        headers = {
            "Idempotency-Key": f"{request.key}-{again}" if again else request.key,
            "Accept-Encoding": "identity",
        }
        failure: Exception
        try:
            async with self.endpoints[request.url](**request.body, extra_headers=headers) as response:
                reply = await _receive(response.http_response)
                status = response.http_response.status_code
                replies.add(flush=True, key=request.key, server=self.server, status=status, **reply)
        except InputError:
            raise
        except Exception as error:
            # Of any type: a reply with another status may break off, too.
            failure = error
        else:
            self._replied(request)
            return
        if request.key in replies.results:
            # Only closing the connection failed.
            self._replied(request)
        else:
            self._failed(request, failure)

    def _replied(self, request: Request) -> None:
        """Count a stored reply; stop if no reply of the model can be read."""
        name, replies = request.model, self.replies[request.model]
        model = self.models[name]
        self.usd += maximum_usd(model, request) - spent_usd(model, request, replies)
        if replies.answer(request) is not None:
            self.answered[name] += 1
            return
        self.malformed[name] += 1
        if self.malformed[name] >= REJECTIONS and not self.answered[name]:
            self._stop(
                InputError(
                    f"{self.server}: no reply to {model.model!r} has a known shape; they are kept in "
                    f"{replies.path}; check {BASE_URL} and the endpoint of the model"
                )
            )

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
            self._stop(problem)
            return
        if status in FINAL:
            return
        self.last_failure = f"{message} (status {status})" if status else message
        if status in TIMED_OUT:
            # Both attempts may be charged.
            usd = maximum_usd(self.models[request.model], request)
            if usd and usd > self.usd:
                self.last_failure += "; another attempt could exceed llm.max_cost_usd"
                self.failed += 1
                return
            self.usd -= usd
        raise _Retryable(status == 429, pause)


async def _receive(response: Any) -> dict[str, str]:
    """Receive the body of a reply, as far as it comes.

    Returns:
        ``raw``, ``encoding`` and ``cut`` of its line in the ledger.
    """
    data = bytearray()
    cut = ""
    try:
        async with asyncio.timeout(TIMEOUT):
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > MOST_BYTES:
                    cut = f"longer than {MOST_BYTES:,} bytes"
                    break
    except Exception as error:
        cut = redact(str(error) or type(error).__name__)
    fields = {
        "raw": redact(bytes(data[:MOST_BYTES]).decode("utf-8", "surrogateescape")),
        "encoding": response.headers.get("content-encoding", "").strip().lower(),
        "cut": cut,
    }
    return {name: value for name, value in fields.items() if value or name == "raw"}


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
