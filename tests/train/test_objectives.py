"""Terms of the loss."""

from types import SimpleNamespace

import torch

from cadmus.config import Train
from cadmus.train.objectives import NextToken


def test_errors_are_running_means_of_the_templates_in_the_batch():
    objective = NextToken(Train(steps=1, order="self_paced"), [1.0, 0.5], 1, torch.device("cpu"))
    objective.metrics([3.0, 2.0, 2.0, 0.0, 8.0, 0.0], SimpleNamespace(targets=1, completion_targets=1))
    assert objective.errors == [0.95 + 0.05 * 0.25, 0.5]
