"""The order of the programs."""

import numpy as np

from cadmus.train.batches import Batches


def test_each_epoch_is_another_permutation():
    batches = Batches(seed=1, programs=10, batch_size=4)
    sequence = np.concatenate([batches.batch(step) for step in range(10)])
    epochs = sequence.reshape(4, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_a_batch_depends_only_on_seed_and_step():
    reference = [Batches(1, 10, 25).batch(step) for step in range(5)]
    onward = Batches(1, 10, 25)
    assert all(np.array_equal(onward.batch(step), reference[step]) for step in range(5))
    assert not np.array_equal(Batches(2, 10, 25).batch(0), reference[0])


def test_a_part_of_each_batch_comes_from_the_repeated_set():
    batches = Batches(seed=1, programs=100, batch_size=8, repeated=5, of_repeated=2)
    sequence = np.stack([batches.batch(step) for step in range(50)])
    repeated, others = sequence[:, :2], sequence[:, 2:]
    assert len(np.unique(repeated)) == 5
    assert not set(repeated.flat) & set(others.flat)
    assert len(np.unique(others)) == 95
    # 100 places are 20 epochs of the repeated set.
    assert (np.bincount(repeated.ravel())[np.unique(repeated)] == 20).all()
    again = Batches(seed=1, programs=100, batch_size=8, repeated=5, of_repeated=2)
    assert np.array_equal(again.batch(7), sequence[7])


def test_the_repeated_set_alone():
    batches = Batches(seed=1, programs=100, batch_size=8, repeated=4, of_repeated=8)
    assert len(np.unique([batches.batch(step) for step in range(5)])) == 4
