"""Requests sent one by one, many at a time, to any server that speaks the OpenAI API."""

import asyncio
import email.utils
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import openai

from cadmus.common.progress import progress
from cadmus.config import Llm
from cadmus.errors import InputError, ModelOutputError
from cadmus.llm import client as clients
from cadmus.llm.answers import read_reply
from cadmus.llm.replies import FINAL, Replies
from cadmus.llm.requests import Request

ATTEMPTS = 8
"""How often a request is sent when the server fails."""
PATIENCE = 50
"""How often it is sent when the server says that there are too many."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the second attempt, and at most before any, where the server names no time."""
LONGEST_WAIT = 3600.0
"""Seconds that a server may ask to wait for."""
REFUSALS = 20
"""After so many requests of a model refused and none answered, the others would be refused as well."""


@dataclass
class Outcome:
    """What came of sending requests: how many were answered or refused for good, and what failed last."""

    answered: int = 0
    refused: int = 0
    failed: int = 0
    stopped: bool = False
    last_failure: str = ""


def send(requests: Iterable[Request], replies: Mapping[str, Replies], settings: Llm) -> Outcome:
    """Send requests and write every reply down as it comes.

    SIGINT and SIGTERM end it when the requests under way have been answered.

    Args:
        requests: those that are not settled.
        replies: the replies of each model, being written.
        settings: how many at a time, and in a minute.

    Raises:
        InputError: the server accepts nothing, or refuses everything; what was answered is kept.
    """
    return asyncio.run(_Sender(list(requests), replies, settings).run())


@dataclass
class _Sender:
    """One submission: workers that share the pending requests, a pace, and a reason to stop."""

    requests: list[Request]
    replies: Mapping[str, Replies]
    settings: Llm
    outcome: Outcome = field(default_factory=Outcome)
    problem: InputError | None = None

    async def run(self) -> Outcome:
        self.stop = asyncio.Event()
        self.pace = _Pace(self.settings.requests_per_minute, self.stop)
        self.tally: Counter[tuple[str, bool]] = Counter()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupted)
        pending = iter(self.requests)
        async with openai.AsyncOpenAI(**clients.options()) as client:
            self.server = clients.server(client)
            self.asking = _endpoints(client)
            with progress("requests", total=len(self.requests)) as bar:
                await asyncio.gather(*(self._work(pending, bar) for _ in range(self.settings.concurrency)))
        if self.problem is not None:
            raise self.problem
        return self.outcome

    def _interrupted(self) -> None:
        self.outcome.stopped = True
        self.stop.set()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            # A second signal ends it at once.
            loop.remove_signal_handler(number)

    async def _work(self, pending: Iterable[Request], bar: Any) -> None:
        for request in pending:
            if not await self.pace.turn():
                return
            await self._ask(request)
            bar.update()

    async def _ask(self, request: Request) -> None:
        replies = self.replies[request.model]
        failures = waits = 0
        while True:
            replies.add(sent=request.key)
            try:
                body = await self._reply(request)
            except openai.OpenAIError as error:
                pause = self._failed(request, error)
                if pause is None:
                    return
                status, told = getattr(error, "status_code", None), clients.said(error)
            except ModelOutputError as error:
                status, told, pause = None, {"code": "malformed", "message": str(error)}, 0.0
            else:
                replies.add(key=request.key, server=self.server, status=200, body=body)
                self.outcome.answered += 1
                self.tally[request.model, True] += 1
                return
            too_many = status == 429
            waits, failures = waits + too_many, failures + (not too_many)
            # Noted, so that it is not taken for one that was sent and never heard of again.
            replies.add(key=request.key, server=self.server, status=status, error=told)
            self.outcome.last_failure = f"{told['message']} (status {status})" if status else told["message"]
            if failures >= ATTEMPTS or waits >= PATIENCE:
                self.outcome.failed += 1
                return
            tried = failures + waits
            pause = pause or random.uniform(0.75, 1) * min(FIRST_PAUSE * 2 ** (tried - 1), LONGEST_PAUSE)
            if too_many:
                self.pace.pause(pause)
            else:
                await self.pace.sleep(pause)
            if not await self.pace.turn():
                return

    async def _reply(self, request: Request) -> dict[str, Any]:
        """The body of the reply to a request.

        Raises:
            openai.OpenAIError: there is none.
            ModelOutputError: it is none.
        """
        # A server that knows this header answers the same request once, whatever becomes of the connection.
        header = {"Idempotency-Key": request.key}
        raw = await self.asking[request.url](**request.body, extra_headers=header)
        try:
            body: dict[str, Any] = json.loads(clients.clean(raw.text))
        except ValueError:
            raise ModelOutputError("the reply is no JSON") from None
        read_reply(request.url, body)
        return body

    def _failed(self, request: Request, error: openai.OpenAIError) -> float | None:
        """Seconds to wait for at least before the request is sent again; None if it is not to be."""
        replies = self.replies[request.model]
        status, told = getattr(error, "status_code", None), clients.said(error)
        problem = clients.fatal(error, self.server, request.body["model"])
        if status in FINAL:
            self.outcome.refused += 1
            self.tally[request.model, False] += 1
            if self.tally[request.model, False] >= REFUSALS and not self.tally[request.model, True]:
                problem = InputError(
                    f"{self.server} refuses every request to {request.body['model']!r}: {told['message']}"
                )
        wait = retry_after(error) if isinstance(error, openai.APIStatusError) else 0.0
        if wait > LONGEST_WAIT:
            problem = InputError(
                f"{self.server} asks to come back in {wait:.0f} s: {told['message']}; run it again then"
            )
        if problem is not None:
            self.problem = self.problem or problem
            self.stop.set()
        if problem is not None or status in FINAL:
            replies.add(key=request.key, server=self.server, status=status, error=told)
            return None
        return wait


class _Pace:
    """When the next request may be sent: not too many in a minute, and none while the server wants none."""

    def __init__(self, per_minute: float | None, stop: asyncio.Event) -> None:
        self.interval = 60 / per_minute if per_minute else 0.0
        self.next = 0.0
        self.stop = stop

    def pause(self, seconds: float) -> None:
        """Send nothing for so long."""
        self.next = max(self.next, time.monotonic() + seconds)

    async def sleep(self, seconds: float) -> None:
        """Wait for so long, or until all is to stop."""
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            return

    async def turn(self) -> bool:
        """Wait for a turn to send; False when all is to stop."""
        while not self.stop.is_set():
            now = time.monotonic()
            if now >= self.next:
                if self.interval:
                    self.next = now + self.interval
                return True
            await self.sleep(self.next - now)
        return False


def retry_after(error: openai.APIStatusError) -> float:
    """Seconds that a server asks to wait for, in any of the forms of the header; 0 when it does not."""
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    date = email.utils.parsedate_tz(headers.get("retry-after"))
    return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0


def _endpoints(client: openai.AsyncOpenAI) -> dict[str, Callable[..., Awaitable[Any]]]:
    return {
        "/v1/chat/completions": client.chat.completions.with_raw_response.create,
        "/v1/completions": client.completions.with_raw_response.create,
        "/v1/responses": client.responses.with_raw_response.create,
    }
