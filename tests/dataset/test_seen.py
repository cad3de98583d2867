"""The set of hashes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cadmus.dataset.seen import Seen


@given(st.lists(st.lists(st.integers(0, 60) | st.integers(2**64 - 3, 2**64 - 1))))
def test_add_returns_which_hashes_are_new(batches):
    seen, before = Seen(sum(map(len, batches))), set()
    for batch in batches:
        new = seen.add(np.array(batch, np.uint64)).tolist()
        for value, is_new in zip(batch, new, strict=True):
            # 0 marks a free place, so it counts as 1.
            assert is_new == (max(value, 1) not in before)
            before.add(max(value, 1))
