"""The order of the training programs."""

import numpy as np

from cadmus.train.order import programs_of


def test_each_epoch_is_another_permutation():
    sequence = np.concatenate([programs_of(step, seed=1, programs=10, batch_size=4) for step in range(10)])
    epochs = sequence.reshape(4, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_a_batch_depends_only_on_seed_and_step():
    onward = [programs_of(step, 1, 10, 25) for step in range(5)]
    back = [programs_of(step, 1, 10, 25) for step in reversed(range(5))]
    assert all(map(np.array_equal, onward, reversed(back)))
    assert not np.array_equal(programs_of(0, 2, 10, 25), onward[0])
