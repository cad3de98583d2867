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
