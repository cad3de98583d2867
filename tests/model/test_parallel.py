"""Independent computations in threads."""

import threading

import numpy as np
import pytest
import torch

from cadmus.model.inference import in_parallel
from dev.measure import PATIENCE
from tests.model.models import FLOAT_NOISE, random_programs
from tests.model.test_sampling import model, texts

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_two_items_are_computed_at_a_time_on_one_thread_each():
    meeting, found = threading.Barrier(2, timeout=PATIENCE), []

    def compute(item: int) -> None:
        meeting.wait()
        found.append((item, torch.get_num_threads(), torch.is_inference_mode_enabled()))

    in_parallel(compute, range(6), CPU)
    assert sorted(found) == [(item, 1, True) for item in range(6)]
    assert torch.get_num_threads() == 2
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(("items", "device"), [(1, CPU), (3, torch.device("meta"))])
def test_one_item_and_those_of_a_gpu_are_computed_by_the_caller(items, device):
    found = []

    def compute(_: int) -> None:
        found.append((torch.get_num_threads(), threading.current_thread()))

    in_parallel(compute, range(items), device)
    assert found == [(2, threading.current_thread())] * items


def test_an_error_ends_it_and_leaves_the_number_of_threads():
    begun = []

    def compute(item: int) -> None:
        begun.append(item)
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        in_parallel(compute, range(1000), CPU)
    assert len(begun) < 1000
    assert torch.get_num_threads() == 2


def test_samples_and_logits_do_not_depend_on_the_number_of_threads():
    prompts = random_programs(200, 1, 12)
    in_two, logits = texts(512, prompts), model().next_logits(prompts)
    torch.set_num_threads(1)
    assert in_two == texts(512, prompts)
    np.testing.assert_allclose(logits, model().next_logits(prompts), rtol=0, atol=10 * FLOAT_NOISE)
