"""What a run of requests costs at most, before anything is sent, and what it has cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cadmus.errors import InputError, ModelOutputError
from cadmus.llm.answers import read_reply
from cadmus.llm.models import LanguageModel
from cadmus.llm.replies import Replies
from cadmus.llm.requests import Request

BYTES_PER_TOKEN = 2
"""Bytes of a prompt that count as one token: fewer than tokenizers put into one, to be on the safe side."""


@dataclass(frozen=True)
class Cost:
    """The requests of one model, and what they cost.

    Attributes:
        requests: how many there are.
        settled: answered, or refused for good.
        awaited: in batches under way.
        to_send: all others.
        spent_usd: the cost of the answers, by what the server counted.
        awaited_usd: the most that the batches under way may cost, and what was sent and never heard of again.
        to_send_usd: the most that the others may cost, every answer being as long as it may be.
    """

    model: LanguageModel
    requests: int
    settled: int
    awaited: int
    to_send: int
    spent_usd: float
    awaited_usd: float
    to_send_usd: float

    @property
    def usd(self) -> float:
        """The most that all of it may cost in the end."""
        return self.spent_usd + self.awaited_usd + self.to_send_usd


def at_most(model: LanguageModel, request: Request) -> float:
    """The most that a request may cost, in USD."""
    prompt = sum(len(str(part).encode()) for part in request.body.values())
    return model.usd(prompt / BYTES_PER_TOKEN, request.max_output_tokens)


def paid(model: LanguageModel, request: Request, replies: Replies) -> float:
    """What the reply to a request has cost, in USD; the most it may have where the server did not count."""
    try:
        answer = read_reply(request.url, replies.bodies[request.key])
    except ModelOutputError:
        return at_most(model, request)
    if answer.input_tokens is None or answer.output_tokens is None:
        return at_most(model, request)
    return model.usd(answer.input_tokens, answer.output_tokens)


def cost(model: LanguageModel, requests: Iterable[Request], replies: Replies) -> Cost:
    """What the requests of a model cost, after these replies.  Two alike are sent and paid once."""
    distinct = {request.key: request for request in requests}
    settled = {key for key in distinct if replies.settles(key)}
    awaited = (replies.awaited & distinct.keys()) - settled
    to_send = distinct.keys() - settled - awaited
    worst = {key: at_most(model, request) for key, request in distinct.items()}
    return Cost(
        model,
        len(distinct),
        len(settled),
        len(awaited),
        len(to_send),
        sum(paid(model, distinct[key], replies) for key in replies.bodies.keys() & distinct.keys()),
        sum(worst[key] for key in awaited) + sum(worst[key] * replies.unheard[key] for key in worst),
        sum(worst[key] for key in to_send),
    )


def check_cap(costs: Mapping[str, Cost], chosen: Iterable[str], max_cost_usd: float) -> None:
    """See that sending what is left of the chosen models cannot bring the whole run above the cap.

    Raises:
        InputError: it could.
    """
    spent = sum(of_model.spent_usd + of_model.awaited_usd for of_model in costs.values())
    more = sum(costs[name].to_send_usd for name in chosen)
    if more and spent + more > max_cost_usd:
        raise InputError(
            f"llm.max_cost_usd: {max_cost_usd:g} USD may not be enough: {spent:.2f} are spent or under way, "
            f"and what is left to send may cost {more:.2f} more; raise it to {spent + more + 0.005:.2f} or "
            "ask for less (`cadmus llm estimate` tells what costs how much); nothing was sent"
        )
