"""Concurrent requests in one batch."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
from starlette.requests import ClientDisconnect

from cadmus.model.inference import Sampler, greedy
from cadmus.programs import Programs
from cadmus.serve.completions import Batcher

PROMPTS = ["12+", "34+7", "5", "78+", "8*", "62*4+5"]


class Slow:
    """A model whose first batch waits until ``go_on`` is set."""

    def __init__(self, model):
        self.model, self.batches, self.go_on = model, [], threading.Event()

    def complete(self, prompts, limits, choose):
        self.batches.append(len(prompts))
        assert self.go_on.wait(60)
        return self.model.complete(prompts, limits, choose)


async def ask(batcher, number, left=False):
    async def is_disconnected():
        return left

    prompts = Programs.from_strings(PROMPTS[number:] + PROMPTS[:number])
    choose = Sampler(len(prompts), 1.0, seed=number) if number % 2 else greedy
    request, limits = SimpleNamespace(is_disconnected=is_disconnected), np.full(len(prompts), 20)
    completions, ended = await batcher.complete(request, prompts, limits, choose)
    return completions.to_strings(), ended.tolist()


async def ask_while_busy(slow, left=None):
    """Ask for 0; while it is decoded ask for 1 to 4; return the completions or errors of all."""
    batcher = Batcher(slow)
    asked = [asyncio.create_task(ask(batcher, 0))]
    while not slow.batches:
        await asyncio.sleep(0.005)
    asked += [asyncio.create_task(ask(batcher, number, left=number == left)) for number in range(1, 5)]
    await asyncio.sleep(0)
    slow.go_on.set()
    return await asyncio.gather(*asked, return_exceptions=True)


async def ask_alone(model):
    return [await ask(Batcher(model), number) for number in range(5)]


def test_waiting_requests_are_one_batch_with_the_same_completions(model):
    slow = Slow(model)
    assert asyncio.run(ask_while_busy(slow)) == asyncio.run(ask_alone(model))
    assert slow.batches == [6, 24]


def test_prompts_of_clients_that_left_are_not_decoded(model):
    slow = Slow(model)
    found, expected = asyncio.run(ask_while_busy(slow, left=2)), asyncio.run(ask_alone(model))
    assert isinstance(found.pop(2), ClientDisconnect)
    del expected[2]
    assert found == expected
    assert slow.batches == [6, 18]


def test_an_error_reaches_every_request_of_its_batch(model):
    class Failing(Slow):
        def complete(self, prompts, limits, choose):
            completed = super().complete(prompts, limits, choose)
            if len(self.batches) > 1:
                raise RuntimeError("no memory")
            return completed

    _, *rest = asyncio.run(ask_while_busy(Failing(model)))
    assert [str(error) for error in rest] == ["no memory"] * 4
