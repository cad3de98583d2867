"""`make gpu-check` without a GPU: its training parts also run on CPUs."""

from dev import gpu_check
from tests.checkout import ROOT


def test_train_steps_measures(tmp_path):
    facts = gpu_check.train_steps(tmp_path, ROOT / "tests/tiny.yaml", 2)
    assert facts["ranks"] == 2
    assert facts["ms_per_step"] > 0
    assert facts["checkpoint_seconds"] > 0
    assert facts["tflops_per_gpu"] > 0
    assert facts["synchronizations_per_step"] == 0
