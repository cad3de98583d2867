"""Samples, the columns of a batch of programs."""

import numpy as np
import pyarrow as pa
import pytest

from cadmus.programs import Programs, Samples

COMPARED = Samples(Programs.from_strings(["12<", "3"]), np.array([2, 1]), np.array([1, -5]), np.array([2, 7]))
OTHERS = Samples(Programs.from_strings(["u"]), np.array([1]))


def test_columns_have_the_types_of_a_shard():
    assert (COMPARED.prompt_length.dtype, COMPARED.x.dtype, COMPARED.y.dtype) == (
        np.uint8,
        np.int16,
        np.int16,
    )
    assert OTHERS.x is OTHERS.y is OTHERS.template is None


@pytest.mark.parametrize("rows", [[1], [False, True]])
def test_take_selects_by_index_or_mask(rows):
    taken = COMPARED.take(np.array(rows))
    assert (taken.programs.to_strings(), taken.prompt_length.tolist()) == (["3"], [1])
    assert (taken.x.tolist(), taken.y.tolist()) == ([-5], [7])


def test_concat_masks_missing_values():
    both = Samples.concat([COMPARED, OTHERS])
    assert both.programs.to_strings() == ["12<", "3", "u"]
    assert (both.x.tolist(), both.y.tolist()) == ([1, -5, None], [2, 7, None])
    assert both.x.dtype == np.int16
    assert Samples.concat([OTHERS, OTHERS]).x is None


def test_from_arrow_reads_the_columns_that_are_there():
    columns = {"program": ["1", "2"], "prompt_length": pa.array([1, 0], pa.uint8())}
    samples = Samples.from_arrow(pa.table({**columns, "x": pa.nulls(2, pa.int16())}))
    assert samples.x is samples.template is None
    samples = Samples.from_arrow(
        pa.table({**columns, "x": pa.array([3, 4], pa.int16()), "template": ["a", "b"]})
    )
    assert (samples.x.tolist(), samples.template.tolist()) == ([3, 4], ["a", "b"])
