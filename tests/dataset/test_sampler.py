"""Sampling that finds too few programs."""

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError


def test_sampling_stops_if_no_candidate_is_true():
    dataset = Dataset.model_validate({"values": {"low": 3, "high": 3}})
    with pytest.raises(InputError, match=r"less_greater.*not true"):
        sample(dataset, 1, "less_greater", "train", 0, 10)


def test_programs_of_the_maximum_length_are_kept():
    dataset = Dataset.model_validate({"max_length": 11})
    assert set(sample(dataset, 1, "less_greater", "train", 0, 10).programs.lengths.tolist()) == {11}


@pytest.mark.parametrize("repeats", [False, True])
def test_short_programs_stay_frequent_where_repeats_are_kept(repeats):
    fields = {"expression_lengths": [3, 7], "repeats": repeats}
    dataset = Dataset.model_validate({"templates": {"basic_math": fields}})
    lengths = sample(dataset, 1, "basic_math", "train", 0, 60_000).programs.lengths
    assert (np.mean(lengths < 9) > 0.4) == repeats
