"""The training loop: losses, interrupting and resuming."""

import re
import shutil
from itertools import pairwise
from pathlib import Path
from signal import SIGTERM

import numpy as np
import pytest

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.model import DEFAULT_MODEL, WEIGHTS
from cadmus.model.export import load_export, read_init, read_metadata
from cadmus.model.gpt import GPT
from cadmus.pages import model
from cadmus.train.labels import CLASSES
from cadmus.train.paths import find_checkpoints, find_snapshots
from tests import labs
from tests.train import worker
from tests.train.runs import assert_same_model, go_back, losses, metrics, run_config, train, train_ranks
from tests.train.test_state import NO_DIFFERENCE
from tests.train.worker import Interrupt

SMALL = run_config()["model"]


@pytest.mark.parametrize(
    "values",
    [
        run_config(),
        run_config(recipe="paper"),
        run_config(recipe="paper", precision="fp32", micro_batch_size=8),
        run_config(reinforcement={"fraction": 0.7, "questions": ["random"], "prompts": 4}),
        run_config(state_weight=1.0, state_labels={"top_number": 1.0, "second": 1.0, "difference": 1.0}),
        *(config.merged(run_config(), changes) for changes in labs.samples("RUNS").values()),
    ],
    ids=["muon", "adam", "adam-accumulated", "reinforcement", "states", *labs.samples("RUNS")],
)
def test_a_resumed_run_has_the_same_losses_and_weights(tmp_path, values):
    assert train(tmp_path / "whole", values) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    go_back(tmp_path / "parts", 5)
    assert train(tmp_path / "parts", values) == 0
    assert len(losses(tmp_path / "whole")) == 10
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert_same_model(tmp_path / "parts", tmp_path / "whole")


def test_a_run_ahead_of_its_device_has_the_same_losses(tmp_path):
    """As on a GPU, a step is launched before the losses of the last one are read, except at checkpoints."""
    values = run_config(checkpoint_every=4, snapshots=2, state_weight=1.0)
    assert train(tmp_path / "usual", values) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "train", train_ahead)
        assert train(tmp_path / "ahead", values) == 0
    assert losses(tmp_path / "ahead") == losses(tmp_path / "usual")
    assert_same_model(tmp_path / "ahead", tmp_path / "usual")
    for snapshot in find_snapshots(tmp_path / "usual/snapshots"):
        again = tmp_path / "ahead/snapshots" / snapshot.name
        assert (again / WEIGHTS).read_bytes() == (snapshot / WEIGHTS).read_bytes()
    # Launched and read, in their order; 1 and 10 are snapshots, 4 and 8 checkpoints.
    order = "L1 R1 L2 L3 R2 L4 R3 R4 L5 L6 R5 L7 R6 L8 R7 R8 L9 L10 R9 R10"
    assert (tmp_path / "ahead/order").read_text() == order


def train_ahead(directory: Path, data_digest: str) -> None:
    from cadmus.train import loop

    order = []
    step, read = loop.Training.train_step, loop.Training.finish_step

    def launched(self, stop):
        order.append(f"L{self.step + 1}")
        return step(self, stop)

    def was_read(self, of):
        order.append(f"R{of.step + 1}")
        return read(self, of)

    loop.Training.train_step, loop.Training.finish_step = launched, was_read
    loop.runs_ahead = lambda device: True
    worker.train(directory, data_digest)
    (directory / "order").write_text(" ".join(order))


def test_losses_do_not_depend_on_ranks(tmp_path):
    labels = {"top": 1.0, "top_number": 0.5, "second": 0.2, "difference": 0.1}
    fields = {"state_weight": 0.5, "state_labels": labels, "precision": "fp32"}
    assert train(tmp_path / "one", run_config(**fields)) == 0
    assert train(tmp_path / "parts", run_config(**fields, micro_batch_size=8)) == 0
    assert train_ranks(tmp_path / "two", run_config(**fields, ranks=2)) == 0
    assert_same_model(tmp_path / "two", tmp_path / "one", NO_DIFFERENCE)
    wanted = metrics(tmp_path / "one")
    for name in ("parts", "two"):
        found = metrics(tmp_path / name)
        for metric in ("loss", "state_loss"):
            assert [step[metric] for step in found] == pytest.approx(
                [step[metric] for step in wanted], abs=NO_DIFFERENCE
            )
        assert [step["tokens"] for step in found] == [step["tokens"] for step in wanted]


def test_an_interrupted_run_resumes_to_the_same_losses(tmp_path):
    values = run_config(steps=20, checkpoint_every=8)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, values) == 0
    assert train(stopped, values, interrupt=Interrupt(10, SIGTERM)) == 3
    assert 10 < len(losses(stopped)) < 16
    assert find_checkpoints(stopped / "checkpoints")[-1].name == f"step-{len(losses(stopped)):08d}"
    assert train(stopped, values) == 0
    assert losses(stopped) == losses(whole)
    assert_same_model(stopped, whole)
    seconds = [record["seconds"] for record in metrics(stopped)]
    assert all(later > earlier for earlier, later in pairwise(seconds))


def test_a_run_learns_and_exports_its_metadata(tmp_path):
    values = run_config(
        steps=80, checkpoint_every=80, learning_rate=3e-3, precision=None, export_precision="bf16"
    )
    assert train(tmp_path, values) == 0
    records = metrics(tmp_path)
    assert records[0]["loss"] == pytest.approx(np.log(isa.VOCABULARY_SIZE), abs=0.1)
    assert records[-1]["completion_loss"] < records[0]["completion_loss"] - 0.1
    exported = read_metadata(tmp_path / "model")
    assert exported.steps == 80
    assert exported.weights == "bfloat16"
    assert exported.data_digest == "data"
    assert exported.loss == records[-1]["loss"]
    assert exported.tokens == records[-1]["tokens"]
    assert exported.flops == records[-1]["flops"] == pytest.approx(80 * records[0]["flops"], rel=0.1)
    assert exported.config.train.learning_rate == 3e-3
    assert exported.config.train.precision in ("bf16", "fp32")
    assert load_export(tmp_path / "model").sizes == config.Model(**run_config()["model"])


def test_state_supervision_learns_the_stack_and_leaves_the_export_plain(tmp_path):
    values = run_config(state_weight=1.0, steps=30, precision="fp32")
    assert train(tmp_path / "state", values) == 0
    state_losses = [record["state_loss"] for record in metrics(tmp_path / "state")]
    assert state_losses[0] == pytest.approx(np.log(CLASSES), rel=0.02)
    assert state_losses[-1] < 0.8 * state_losses[0]
    model = load_export(tmp_path / "state/model")
    assert {name for name, _ in model.named_parameters()} == {
        name for name, _ in GPT(model.sizes).named_parameters()
    }
    noted = read_metadata(tmp_path / "state/model")
    assert train(tmp_path / "plain", run_config(steps=30, precision="fp32")) == 0
    plain = read_metadata(tmp_path / "plain/model")
    assert "state_loss" not in metrics(tmp_path / "plain")[0]
    assert noted.flops - plain.flops == 6 * CLASSES * 32 * noted.tokens


def test_prompts_with_weight_zero_are_not_learned(tmp_path):
    last = {}
    for weight in (0.0, 1.0):
        fields = {"recipe": "paper", "precision": "fp32", "learning_rate": 1e-2}
        assert train(tmp_path / str(weight), run_config(**fields, prompt_weight=weight)) == 0
        last[weight] = metrics(tmp_path / str(weight))[-1]
    # Of completions that are ends alone: the end, whatever was before.
    assert last[0.0]["completion_loss"] < last[1.0]["completion_loss"] - 0.5
    assert last[0.0]["loss"] > last[1.0]["loss"] + 0.1


@pytest.mark.parametrize("prompt_weight", [0.0, 0.25, 1.0])
def test_losses_do_not_depend_on_micro_batches(tmp_path, prompt_weight):
    fields = {"recipe": "paper", "precision": "fp32", "learning_rate": 1e-3, "prompt_weight": prompt_weight}
    assert train(tmp_path / "one", run_config(**fields)) == 0
    assert train(tmp_path / "four", run_config(**fields, micro_batch_size=8)) == 0
    np.testing.assert_allclose(losses(tmp_path / "four"), losses(tmp_path / "one"), atol=NO_DIFFERENCE)


def test_a_training_starts_from_a_model_and_says_so(tmp_path):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    labels = {"state_weight": 0.5}
    assert train(first, run_config(**labels)) == 0
    # Rates of nearly 0 leave the weights where they start.
    still = {"steps": 4, "learning_rate": 1e-12, "matrix_learning_rate": 1e-12, "precision": "fp32"}
    assert train(second, run_config(**labels, **still, init=str(first / "model"))) == 0
    assert_same_model(first, second, 1e-6)
    noted = read_metadata(second / "model")
    assert (noted.steps, noted.init) == (4, read_metadata(first / "model"))
    # The next one knows both.
    assert train(third, run_config(**still, init=str(second / "model"))) == 0
    assert read_metadata(third / "model").init.init == noted.init
    assert "- started from: run test, 10 steps" in model._start(read_metadata(third / "model"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model": {"layers": 3}}, "its model.layers is 8; set the same, not 3"),
        (
            {"dataset": {"eval_fraction": 0.2}},
            "its dataset.eval_fraction is 0.05; it may have learned programs",
        ),
    ],
)
def test_a_model_to_start_from_must_fit(change, problem):
    sizes = read_metadata(DEFAULT_MODEL).model.model_dump()
    values = run_config(init=str(DEFAULT_MODEL)) | {"model": sizes}
    run = config.parse_config(config.merged(values, change), "test")
    with pytest.raises(InputError, match=re.escape(f"train.init: {DEFAULT_MODEL}: {problem}")):
        read_init(run)
