"""Choice between CPU and GPU in ``conftest.py``."""

import pytest

from tests.conftest import names_gpu_tests


@pytest.mark.parametrize(
    "argument", ["tests/gpu.py", "gpu.py", "tests/gpu.py::test_name", "tests/gpu.py::test_name[a::b]"]
)
def test_gpu_tests_see_the_gpu(argument):
    assert names_gpu_tests(["tests/test_isa.py", argument])


@pytest.mark.parametrize("argument", ["tests", "tests/test_train.py", "tests/test_train.py::test_gpu.py"])
def test_other_tests_see_no_gpu(argument):
    assert not names_gpu_tests([argument])
