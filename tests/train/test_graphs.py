"""Steps as graphs, by a tape in place of CUDA: losses and weights are those of ordinary steps."""

import numpy as np
import pytest
import torch

from cadmus.config import parse_config
from cadmus.programs import Samples
from cadmus.train import NO_TARGET
from cadmus.train.objectives import make_loader
from tests.model.models import random_programs
from tests.train import worker
from tests.train.runs import (
    PROCESSES,
    SUPERVISED,
    assert_same_model,
    finish,
    losses,
    run_config,
    train,
    write_config,
)
from tests.train.tape import record

NOISE = 2e-5
"""Absolute difference of losses in fp32: rows of padding, and counts that are tensors."""


def train_recorded(directory, values, fail=False) -> int:
    write_config(directory, values)
    process = PROCESSES.Process(target=worker.train_recorded, args=(directory, fail))
    process.start()
    return finish(process)


@pytest.mark.parametrize("settings", [{}, SUPERVISED], ids=["alone", "with states"])
def test_graphs_compute_what_steps_do(tmp_path, settings):
    values = run_config(precision="fp32", **settings)
    assert train(tmp_path / "steps", values) == 0
    values["train"]["cuda_graph"] = True
    assert train_recorded(tmp_path / "graphs", values) == 0
    np.testing.assert_allclose(losses(tmp_path / "graphs"), losses(tmp_path / "steps"), rtol=0, atol=NOISE)
    assert_same_model(tmp_path / "graphs", tmp_path / "steps", NOISE)
    # Of ten steps, three come before, and fuller batches are computed as before.
    assert 4 < int((tmp_path / "graphs/replays").read_text()) < 8


def test_a_graph_that_cannot_be_recorded_is_one_line(tmp_path):
    assert train_recorded(tmp_path, run_config(cuda_graph=True), fail=True) == 2
    expected = "train.cuda_graph: no memory; set it to false, and start again"
    assert (tmp_path / "error").read_text() == expected


def test_without_a_gpu_the_steps_are_ordinary_ones(tmp_path):
    for graphs in (False, True):
        assert train(tmp_path / str(graphs), run_config(cuda_graph=graphs)) == 0
    assert losses(tmp_path / "True") == losses(tmp_path / "False")
    said = "train.cuda_graph: it needs a GPU; kernels are launched one by one"
    assert said in (tmp_path / "True/log").read_text()


def test_the_tape_keeps_numbers_and_refuses_to_wait():
    number, tensor, total = 2.0, torch.tensor(2.0), torch.zeros(())
    replay = record(lambda: total.add_(tensor * number))
    assert total == 0
    tensor.fill_(5)
    replay()
    assert total == 10
    with pytest.raises(RuntimeError, match="capturing"):
        record(lambda: tensor.item())


def test_almost_every_batch_has_the_rows_of_the_loader():
    programs = random_programs(5000, 4, 60)
    training_set = Samples(programs, programs.lengths)
    values = run_config(batch_size=200)
    values["dataset"]["max_length"] = 63
    loader = make_loader(parse_config(values, "test"), training_set, 0)
    rows = loader.fix_rows()
    packed = [loader.load(step).micro_batches[0] for step in range(100, 200)]
    fuller = sum(len(batch.tokens) > rows for batch in packed)
    assert fuller <= 6
    assert sum(len(batch.tokens) == rows for batch in packed) == 100 - fuller
    # Rows that are added are padding alone.
    added = [batch for batch in packed if (batch.segments[-1] == -1).all()]
    assert len(added) > 80
    assert all((batch.targets[-1] == NO_TARGET).all() for batch in added)
