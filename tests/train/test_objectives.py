"""The loss of state supervision, by hand."""

import numpy as np
import pytest
import torch

from cadmus import config
from cadmus.train import NO_TARGET
from cadmus.train.labels import CLASSES
from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Outputs, Setting
from cadmus.train.objectives.state_supervision import StateSupervision
from cadmus.train.packing import PackedBatch
from cadmus.train.ranks import Place
from tests.train.runs import run_config


def test_the_loss_of_state_supervision_by_hand():
    labels = {"top": 0.5, "top_number": 2.0}
    run = config.parse_config(run_config(state_weight=3.0, state_labels=labels), "test")
    place = Place(0, 2, torch.device("cpu"))
    objective = StateSupervision(Setting(run, place, None, None, 0, print))
    # Two tokens: logits of 0 but for one of 1, and outputs for numbers in units of 20.
    logits = torch.zeros(2, CLASSES + 1)
    logits[0, 4] = 1.0
    logits[:, -1] = torch.tensor([0.5, 0.7])
    empty = torch.zeros(1, 2)
    packed = PackedBatch(
        *[empty] * 5,
        token_count=2,
        columns={
            "labels": torch.tensor([[4, NO_TARGET]]),
            "numbers": torch.tensor([[[13.0], [torch.nan]]]),
        },
    )
    loss = objective.loss(
        Outputs(empty, empty, empty, {"state": logits}), packed, Batch([], 2, 6, 0, 0, 0), True
    )
    of_top = np.log(CLASSES - 1 + np.e) - 1
    # The number is 10 instead of 13: smooth L1 gives 2.5, and a tenth of it counts.
    total = 0.5 * of_top + 2.0 * 0.25
    assert loss.item() == pytest.approx(total * 2 * 3.0 / 6)
    assert objective.sums.tolist() == pytest.approx([total])
