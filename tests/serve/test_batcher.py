"""Concurrent requests in one batch."""

import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from starlette.requests import ClientDisconnect

from cadmus.model.inference import greedy
from cadmus.model.sampling import Sampler
from cadmus.programs import Programs
from cadmus.serve.batcher import Batcher

PROMPTS = ["12+", "34+7", "5", "78+", "8*", "62*4+5"]


class Slow:
    """A model whose first batch waits until all other requests have come."""

    def __init__(self, model):
        self.model, self.batches, self.go_on = model, [], threading.Event()

    def complete(self, prompts, limits, choose):
        self.batches.append(len(prompts))
        self.go_on.wait(60)
        return self.model.complete(prompts, limits, choose)


def ask(batcher, number, abandoned=None):
    prompts = Programs.from_strings(PROMPTS[number:] + PROMPTS[:number])
    choose = Sampler(len(prompts), 1.0, seed=number) if number % 2 else greedy
    completions, ended = batcher.complete(prompts, np.full(len(prompts), 20), choose, abandoned or Event())
    return completions.to_strings(), ended.tolist()


def ask_while_busy(pool, batcher, slow, numbers):
    """Ask for 0; while it is decoded ask for the others, and return all futures once these wait."""
    first = pool.submit(ask, batcher, 0)
    while not slow.batches:
        threading.Event().wait(0.005)
    rest = [pool.submit(ask, batcher, number) for number in numbers]
    while len(batcher._waiting) < len(numbers):
        threading.Event().wait(0.005)
    slow.go_on.set()
    return first, rest


def test_waiting_requests_are_one_batch_with_the_same_completions(model):
    alone = [ask(Batcher(model), number) for number in range(5)]
    slow = Slow(model)
    with ThreadPoolExecutor(5) as pool:
        first, rest = ask_while_busy(pool, Batcher(slow), slow, range(1, 5))
        assert [future.result() for future in (first, *rest)] == alone
    assert slow.batches == [6, 24]


def test_an_error_reaches_every_request_of_its_batch(model):
    class Failing(Slow):
        def complete(self, prompts, limits, choose):
            completed = super().complete(prompts, limits, choose)
            if len(self.batches) > 1:
                raise RuntimeError("no memory")
            return completed

    slow = Failing(model)
    with ThreadPoolExecutor(3) as pool:
        first, rest = ask_while_busy(pool, Batcher(slow), slow, (1, 2))
        assert first.result()
        for future in rest:
            with pytest.raises(RuntimeError, match="no memory"):
                future.result()
    assert slow.batches == [6, 12]


def test_a_client_that_leaves_while_it_is_decoded_shortens_the_batch(model):
    steps, abandoned = [], Event()

    class Leaving:
        def complete(self, prompts, limits, choose):
            def choose_and_leave(logits, rows):
                if len(steps) == 2:
                    abandoned.set()
                steps.append(len(rows))
                return choose(logits, rows)

            return model.complete(prompts, limits, choose_and_leave)

    batcher = Batcher(Leaving())
    with pytest.raises(ClientDisconnect):
        ask(batcher, 0, abandoned)
    assert len(steps) == 3
    # One that has left before takes no step.
    with pytest.raises(ClientDisconnect):
        ask(batcher, 0, abandoned)
    assert len(steps) == 3
