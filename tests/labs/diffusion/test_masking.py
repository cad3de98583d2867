"""Masked diffusion in training: its noise, its batches and its loss."""

import numpy as np
import pytest
import torch

from cadmus import config
from cadmus.labs.diffusion.masked_diffusion import MaskedDiffusion, Masks
from cadmus.labs.diffusion.masking import draw_noise
from cadmus.model.gpt import MASK_ID
from cadmus.programs import Programs, Samples
from cadmus.train import NO_TARGET
from cadmus.train.objectives import make_loader
from cadmus.train.objectives.objective import Outputs, Setting
from cadmus.train.packing import Drawn, pack_batch
from cadmus.train.ranks import Place
from tests.model.models import random_programs
from tests.train.runs import losses, metrics, run_config, train, train_ranks


def masked_config(**fields) -> dict:
    values = run_config(**fields)
    return {**values, "model": {**values["model"], "attention": "full"}}


def test_masks_are_in_the_canvas_and_every_number_of_them_is_as_likely():
    programs = random_programs(6_000, 8, 8)
    prompts = np.full(len(programs), 3)
    noise = draw_noise(np.random.default_rng(0), programs.lengths, prompts, 0.25)
    assert noise.asked.mean() == pytest.approx(0.75, abs=0.03)
    assert (noise.prompts[noise.asked] == 3).all()
    # Log-uniform: canvases of 1 token are as many as those of 2 or 3, or of 4 to 7.
    elsewhere = np.bincount(8 - noise.prompts[~noise.asked], minlength=8) / (~noise.asked).sum()
    assert elsewhere[0] == 0
    assert [elsewhere[1], elsewhere[2:4].sum(), elsewhere[4:].sum()] == pytest.approx([1 / 3] * 3, abs=0.04)
    masked = noise.masked.data.reshape(-1, 8).astype(bool)
    assert (masked.sum(1) == noise.counts).all()
    assert not (masked & (np.arange(8) < noise.prompts[:, None])).any()
    # Stratified: of 5 tokens each number of masks has a fifth of the programs.
    of_five = noise.counts[noise.prompts == 3]
    assert np.bincount(of_five, minlength=6)[1:] / len(of_five) == pytest.approx([0.2] * 5, abs=0.02)
    even = draw_noise(np.random.default_rng(0), programs.lengths, prompts, 0.0)
    assert np.bincount(even.counts)[1:] == pytest.approx(1_200, abs=1)
    assert masked[noise.prompts == 3][:, 3:].mean(0) == pytest.approx([0.6] * 5, abs=0.03)


def test_targets_are_what_is_masked_and_the_length_of_the_canvas():
    strings = ["34+7=", "62*4+54*4-<", "1"]
    programs = Programs.from_strings(strings)
    masks = Masks(config.parse_config(masked_config(masked_diffusion={"elsewhere": 0}), "test"), 1)
    drawn = masks.draw(Drawn.of(programs, np.array([4, 5, 1])))
    packed = pack_batch(drawn, 24, [masks])
    tokens = programs.to_tokens()
    for row, prompt in enumerate((4, 5, 1)):
        here = packed.segments // 2 == row
        length = len(strings[row])
        masked = drawn.columns["masked"].take(np.array([row])).data.astype(bool)
        targets, weights = packed.targets[here].tolist(), packed.columns["weights"][here].tolist()
        shown = np.where(masked, MASK_ID, tokens[row, :length])
        assert packed.tokens[here].tolist() == shown.tolist()
        wanted = np.where(masked, tokens[row, :length], NO_TARGET)
        wanted[prompt - 1] = length - prompt
        assert targets == wanted.tolist()
        canvas = length - prompt
        of_masks = np.full(masked.sum(), canvas / max(masked.sum(), 1))
        assert [weights[place] for place in np.flatnonzero(masked)] == pytest.approx(of_masks)
        assert weights[prompt - 1] == 1
        assert packed.segments[here].tolist() == [2 * row] * prompt + [2 * row + 1] * canvas
    assert (packed.columns["weights"][packed.targets == NO_TARGET] == 0).all()


def test_a_batch_is_the_same_in_any_number_of_parts():
    drawn = random_programs(64, 2, 30)
    samples = Samples(drawn, np.minimum(drawn.lengths, 2))
    run = config.parse_config(masked_config(masked_diffusion={"elsewhere": 0.3}), "test")
    whole = make_loader(run, samples, 0).load(3)
    (packed,) = whole.micro_batches
    # The tokens of each canvas, and its length.
    canvas = (packed.segments >= 0) & (packed.segments % 2 == 1)
    assert whole.targets == int(canvas.sum()) + 32
    assert whole.completion_targets < whole.targets
    places = [Place(rank, 2, torch.device("cpu")) for rank in (0, 1)]
    parts = [make_loader(run, samples, 0, place).load(3) for place in places]
    for part in parts:
        assert part[1:] == whole[1:]
    masks = [int((part.micro_batches[0].tokens == MASK_ID).sum()) for part in parts]
    assert sum(masks) == int((packed.tokens == MASK_ID).sum())


def test_the_loss_is_the_weighted_mean_over_the_targets():
    drawn = random_programs(32, 2, 30)
    run = config.parse_config(masked_config(masked_diffusion={"elsewhere": 0.5}), "test")
    batch = make_loader(run, Samples(drawn, np.ones(32, np.int64)), 0).load(0)
    (packed,) = batch.micro_batches
    objective = MaskedDiffusion(Setting(run, Place(0, 2, torch.device("cpu")), None, None, 0, print))
    # The masks of a canvas weigh as much as its tokens.
    found = torch.where(packed.targets == NO_TARGET, 0.0, 2.0).flatten()
    empty = torch.zeros(0)
    loss = objective.loss(Outputs(empty, empty, found, {}), packed, batch, last=True)
    assert loss.item() == pytest.approx(2 * 2.0, rel=1e-4)
    named = objective.metrics(0, objective.sums.tolist(), batch)
    assert named == pytest.approx({"loss": 2.0, "completion_loss": 2.0}, rel=1e-4)


def test_a_training_learns_and_its_ranks_agree(tmp_path):
    fields = {"steps": 20, "precision": "fp32", "state_weight": 0.5}
    assert train(tmp_path / "whole", masked_config(**fields)) == 0
    assert metrics(tmp_path / "whole")[-1]["loss"] < 0.9 * metrics(tmp_path / "whole")[0]["loss"]
    assert train_ranks(tmp_path / "two", masked_config(**fields, ranks=2)) == 0
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "whole"), atol=2e-3)
