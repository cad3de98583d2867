"""Losses of short runs against ``golden_losses.json``.

After a change that is meant to change losses, run ``python -m tests.train.test_golden_losses`` to update the
file.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from tests.train.runs import losses, run_config, train

GOLDEN = Path(__file__).with_name("golden_losses.json")
RUNS = {
    "adam": {"recipe": "paper", "precision": "fp32", "learning_rate": 1e-3},
    "muon": {"recipe": "fast", "precision": "fp32"},
}
TOLERANCE = 5e-6
"""Other rows or another CPU change losses by 5e-7; a learning rate 1% higher, by 1.4e-4 for Adam, and by 2e-5
and 1.8e-4 for the two of Muon."""


def losses_of(run: str, directory: Path) -> list[float]:
    assert train(directory, run_config(**RUNS[run])) == 0
    return losses(directory)


@pytest.mark.parametrize("run", RUNS)
def test_losses_are_the_golden_ones(tmp_path, run):
    expected = json.loads(GOLDEN.read_text())[run]
    np.testing.assert_allclose(losses_of(run, tmp_path), expected, rtol=0, atol=TOLERANCE)


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        found = {run: losses_of(run, Path(temporary, run)) for run in RUNS}
    rounded = {run: [round(loss, 7) for loss in values] for run, values in found.items()}
    GOLDEN.write_text(json.dumps(rounded, indent=2) + "\n")
