"""Splits by hash."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.dataset.splits import Seen, hashes, split_of
from cadmus.programs import Programs


def test_split_fractions_do_not_depend_on_the_batch():
    texts = [f"{a}{b}+{c}*{d}<" for a in range(10) for b in range(10) for c in range(10) for d in range(10)]
    split = split_of(Programs.from_strings(texts), 0.1)
    assert np.allclose(np.bincount(split) / len(split), [0.8, 0.1, 0.1], atol=0.015)
    alone = [int(split_of(Programs.from_strings([text]), 0.1)[0]) for text in texts[:50]]
    assert alone == split[:50].tolist()
    assert len(np.unique(hashes(Programs.from_strings(texts)))) == len(texts)
    # Without the finalizer, programs that differ in the last instruction would share the first bits.
    ends = [f"62*4+54*4-{end}" for end in isa.BY_SYMBOL if end != isa.END]
    first_bits = hashes(Programs.from_strings(ends)) >> np.uint64(56)
    assert len(np.unique(first_bits)) > len(ends) / 2
    # Published datasets have these splits.
    assert hashes(Programs.from_strings(["34+7="])).tolist() == [15854610633540328520]


@given(st.lists(st.lists(st.integers(0, 60) | st.integers(2**64 - 3, 2**64 - 1))))
def test_add_returns_which_hashes_are_new(batches):
    seen, before = Seen(sum(map(len, batches))), set()
    for batch in batches:
        new = seen.add(np.array(batch, np.uint64)).tolist()
        for value, is_new in zip(batch, new, strict=True):
            # 0 marks a free place, so it counts as 1.
            assert is_new == (max(value, 1) not in before)
            before.add(max(value, 1))
