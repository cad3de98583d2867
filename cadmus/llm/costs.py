"""Upper bounds of the cost of requests before they are sent, and the cost of their replies."""

from collections.abc import Mapping
from dataclasses import dataclass

from cadmus.llm.models import LanguageModel
from cadmus.llm.replies import Replies
from cadmus.llm.requests import Request

BYTES_PER_TOKEN = 2
"""Bytes of a prompt per token. Tokenizers take more, so the bound holds."""


@dataclass(frozen=True)
class Cost:
    """Number and cost of the requests to one model.

    Attributes:
        requests: all requests.
        settled: answered or rejected for good.
        malformed: those of them whose reply has no known shape.
        awaited: in batches under way.
        to_send: all others.
        spent_usd: cost of the replies, from the server's token counts; the upper bound where it counted none.
        awaited_usd: upper bound for batches under way and for requests sent without a reply.
        to_send_usd: upper bound for the others, with every answer as long as its limit.
    """

    model: LanguageModel
    requests: int
    settled: int
    malformed: int
    awaited: int
    to_send: int
    spent_usd: float
    awaited_usd: float
    to_send_usd: float

    @property
    def usd(self) -> float:
        """Upper bound of the total."""
        return self.spent_usd + self.awaited_usd + self.to_send_usd


def maximum_usd(model: LanguageModel, request: Request) -> float:
    """Return the upper bound of the cost of a request, in USD."""
    prompt = sum(len(str(part).encode()) for part in request.body.values())
    return model.usd(prompt / BYTES_PER_TOKEN, request.max_output_tokens)


def spent_usd(model: LanguageModel, request: Request, replies: Replies) -> float:
    """Return the cost of a reply in USD, or the upper bound if the server did not count its tokens."""
    answer = replies.answer(request)
    if answer is None or answer.input_tokens is None or answer.output_tokens is None:
        return maximum_usd(model, request)
    return model.usd(answer.input_tokens, answer.output_tokens)


def cost(
    model: LanguageModel, requests: Mapping[str, Request], replies: Replies, again: bool = False
) -> Cost:
    """Return the cost of the requests to a model; equal requests are sent and paid for once.

    Args:
        model: the model.
        requests: its requests, by key.
        replies: its ledger.
        again: also send those again whose reply has no known shape.
    """
    malformed = replies.malformed(requests)
    answered = replies.results.keys() & requests.keys()
    settled = {key for key in requests if replies.settles(key)} - (malformed if again else set())
    awaited = (replies.awaited & requests.keys()) - settled
    to_send = requests.keys() - settled - awaited
    maximum = {key: maximum_usd(model, request) for key, request in requests.items()}
    return Cost(
        model,
        len(requests),
        len(settled),
        len(malformed),
        len(awaited),
        len(to_send),
        sum(spent_usd(model, requests[key], replies) for key in answered)
        + sum(maximum[key] * replies.discarded[key] for key in maximum),
        sum(maximum[key] for key in awaited) + sum(maximum[key] * replies.unheard[key] for key in maximum),
        sum(maximum[key] for key in to_send),
    )
