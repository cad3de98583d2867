"""The batch of a step."""

import numpy as np
import pytest

from cadmus import config
from cadmus.errors import InputError
from cadmus.programs import Programs, Samples
from cadmus.train.loader import Loader


def test_counts_cover_all_ranks():
    strings = ["34+7=", "u", "12+0>", "55="]
    training_set = Samples(Programs.from_strings(strings), np.full(4, 2, np.uint8))
    batches = [
        Loader(training_set, 0, config.Train(steps=1, batch_size=4), 16, rank, ranks=2).load(0)
        for rank in (0, 1)
    ]
    tokens = [len(string) + 1 for string in strings]
    for batch in batches:
        assert batch.tokens == sum(tokens)
        # Each token attends to itself and to those before it in its program.
        assert batch.pairs == sum(count * (count + 1) // 2 for count in tokens)
        assert batch.targets == sum(map(len, strings))
    assert sum(batch.micro_batches[0].programs for batch in batches) == 4


def test_the_repeated_set_is_smaller_than_the_training_set():
    training_set = Samples(Programs.from_strings(["34+7=", "u", "12+0>", "55="]), np.full(4, 2, np.uint8))
    train = config.Train(steps=1, batch_size=4, repeated={"fraction": 0.25, "programs": 4})
    with pytest.raises(InputError, match="must be fewer than the 4 programs of the dataset, got 4"):
        Loader(training_set, 0, train, 16)
    train = config.Train(steps=1, batch_size=4, repeated={"fraction": 0.25, "programs": 1})
    assert Loader(training_set, 0, train, 16).load(0).micro_batches[0].programs == 4
