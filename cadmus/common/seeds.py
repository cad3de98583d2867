"""Random streams: every seed and generator that results depend on.

The functions differ in how they turn names and numbers into entropy. Changing one changes datasets or
results, so new code uses :func:`generator`.
"""

import hashlib
import json

import numpy as np


def seed_of(*parts: int | str) -> int:
    """Return the 128-bit seed of a dataset shard, a fuzz chunk or a training: a hash of ``parts``."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:16])


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the 64-bit seed that shuffles the training programs of an epoch."""
    return seed_of(json.dumps({"epoch": epoch, "seed": seed, "split": "train"})) >> 64


def generator(seed: int, *parts: int | str) -> np.random.Generator:
    """Return the generator of an experiment or of one step of sampling, named by ``parts``.

    Args:
        seed: at least 0.
        parts: names and numbers of at least 0; different names give independent streams.
    """
    entropy = [seed]
    for part in parts:
        entropy.extend(part.encode() if isinstance(part, str) else [part])
    return np.random.default_rng(entropy)
