"""Scores of training programs by attribution methods."""

import numpy as np
import pytest
import torch

from cadmus import isa
from cadmus.evaluate.attribution import scores_of, subjects_of
from cadmus.evaluate.losses import completion_losses
from cadmus.model.inference import Cadmus
from cadmus.programs import Samples
from tests.evaluate.samples import samples_of
from tests.model.models import random_model

TRAIN = Samples.concat(
    [
        samples_of("basic_math", "34+7=", "12+0>", "25*1=", prompt_length=[4, 4, 4]),
        samples_of("basic_sequences", "u1b2bL2=", "u1b2b$3=", prompt_length=6),
    ]
)
TEST = Samples.concat([samples_of("basic_sequences", "u1b2bN1=", prompt_length=6), TRAIN.take(np.array([1]))])


def test_the_gradient_product_is_what_a_step_on_a_program_gains():
    model = Cadmus(random_model())
    scores = scores_of(model, TEST, TRAIN)["gradient product"]
    lengths = TEST.prompt_length.astype(np.int64)
    before, small = completion_losses(model, TEST.programs, lengths), 1e-5
    for row in range(len(TRAIN)):
        stepped = random_model()
        program = TRAIN.take(np.array([row]))
        (prompt,) = program.prompt_length.tolist()
        tokens = torch.from_numpy(np.append(program.programs.to_tokens()[0], isa.END_ID))[None]
        positions = torch.arange(tokens.shape[1] - 1)[None]
        logits = stepped(tokens[:, :-1], positions, torch.zeros_like(positions))
        torch.nn.functional.cross_entropy(logits[0, prompt - 1 :], tokens[0, prompt:]).backward()
        with torch.no_grad():
            for weight in stepped.parameters():
                weight -= small * weight.grad
        gained = before - completion_losses(Cadmus(stepped), TEST.programs, lengths)
        assert gained / small == pytest.approx(scores[:, row], rel=0.05, abs=0.5)


def test_a_program_scores_highest_for_itself():
    scores = scores_of(Cadmus(random_model()), TEST, TRAIN)
    assert scores["TRAK"][1].argmax() == 1
    assert scores["same subject"].tolist() == [[0, 0, 0, 1, 1], [0, 1, 0, 0, 0]]
    assert (scores["training loss"] > 0).all()
    assert (scores["training loss"][0] == scores["training loss"][1]).all()
    assert {matrix.shape for matrix in scores.values()} == {(2, 5)}


def test_the_model_stays_as_it_is():
    model = Cadmus(random_model())
    before = {name: weight.clone() for name, weight in model.model.state_dict().items()}
    first, second = (scores_of(model, TEST, TRAIN) for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)
    assert all((weight == before[name]).all() for name, weight in model.model.state_dict().items())


def test_subjects_have_the_template():
    assert subjects_of(TRAIN).tolist()[3:] == ["basic_sequences u1b2b"] * 2
