"""Random streams: golden values, since changing one changes datasets and results."""

import numpy as np
import pytest

from cadmus.common.seeds import epoch_seed, generator, seed_of


def test_seeds_have_their_golden_values():
    assert seed_of(1, "equality", "train", 0) == 0x61F5E9307AD833B2B51F506B37B2DEA8
    assert epoch_seed(seed_of(1, "train", 1), 0) == 0xB1EE321CDCFC19D5


@pytest.mark.parametrize(
    ("parts", "entropy"), [(("grid",), [7, *b"grid"]), ((3,), [7, 3]), (("a", 2**40), [7, 97, 2**40])]
)
def test_a_generator_is_seeded_with_its_parts(parts, entropy):
    expected = np.random.default_rng(entropy).random(4)
    assert generator(7, *parts).random(4).tolist() == expected.tolist()
