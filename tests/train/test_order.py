"""Curricula and self-paced sampling."""

import numpy as np
import pytest

from cadmus.config import Train
from cadmus.train.batches import TemplateBatches
from cadmus.train.order import SMALLEST, updated, weights

COUNTS = np.array([40, 10, 30])


def test_each_template_goes_through_epochs_of_its_own():
    batches = TemplateBatches(1, COUNTS, 16)
    drawn, seen = [0, 0, 0], []
    for step in range(30):
        indices, drawn = batches.draw(step, np.array([0.0, 1.0, 3.0]), drawn)
        seen.append(indices)
    sequence = np.concatenate(seen)
    assert sequence.min() >= 40
    second = sequence[sequence < 50]
    assert drawn == [0, len(second), len(sequence) - len(second)]
    # Every epoch has each program once.
    assert np.ptp(np.bincount(second - 40)) <= 1
    assert len(second) == pytest.approx(30 * 16 / 4, rel=0.3)


def test_a_batch_is_a_function_of_the_step_and_of_what_was_drawn():
    uniform = np.ones(3)
    first, drawn = TemplateBatches(1, COUNTS, 16).draw(7, uniform, [5, 6, 7])
    again, _ = TemplateBatches(1, COUNTS, 16).draw(7, uniform, [5, 6, 7])
    assert np.array_equal(first, again)
    assert sum(drawn) == 5 + 6 + 7 + 16
    other, _ = TemplateBatches(2, COUNTS, 16).draw(7, uniform, [5, 6, 7])
    assert not np.array_equal(first, other)


def test_stages_add_the_templates_in_the_first_half():
    train = Train(steps=60, order="staged")
    active = [np.count_nonzero(weights(train, COUNTS, step, [1.0] * 3)) for step in range(60)]
    assert active == [1] * 10 + [2] * 10 + [3] * 40
    assert weights(train, COUNTS, 59, [1.0] * 3).tolist() == COUNTS.tolist()


def test_self_paced_weights_are_errors():
    train = Train(steps=60, order="self_paced")
    assert weights(train, COUNTS, 5, [0.5, 0.0, 0.2]).tolist() == [0.5, SMALLEST, 0.2]


def test_errors_are_running_means_of_the_templates_in_the_batch():
    assert updated([1.0, 0.5], [2.0, 0.0], [8.0, 0.0]) == [0.95 + 0.05 * 0.25, 0.5]
