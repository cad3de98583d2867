"""Loss and accuracy on the validation split, next to those of single programs."""

import numpy as np
import pytest

from cadmus import isa
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, Samples
from cadmus.train.validation import Validation
from tests.evaluate.samples import DATASET, samples_of
from tests.model.models import random_model


def test_each_token_and_each_question_count_the_same(monkeypatch) -> None:
    model, programs = random_model(), {"34+7=": 4, "12+4<": 4, "u1b2b0@1=": 7}
    sums = samples_of("basic_math", "34+7=", "12+4<", prompt_length=4)
    samples = Samples.concat([sums, samples_of("basic_sequences", "u1b2b0@1=", prompt_length=7)])
    tables = Cadmus(model).log_probabilities(list(programs))
    loss, tokens = 0.0, 0
    for (program, length), table in zip(programs.items(), tables, strict=True):
        completion = program[length:] + isa.END
        rows = np.arange(length - 1, len(program))
        loss -= table[rows, [isa.TOKEN_ID[symbol] for symbol in completion]].sum()
        tokens += len(completion)
    # One of two sums is right, and the sequence.
    answers = {"34+7": "=", "12+4": ">", "u1b2b0@": "1="}

    def complete(_model: Cadmus, prompts: Programs) -> tuple[Programs, np.ndarray]:
        texts = [answers[prompt] for prompt in prompts.to_strings()]
        return Programs.from_strings(texts), np.ones(len(texts), np.bool_)

    monkeypatch.setattr(Cadmus, "complete", complete)
    measured = Validation(samples, DATASET).measure(model)
    assert measured["validation_loss"] == pytest.approx(loss / tokens, rel=1e-4)
    assert measured["validation_solved"] == pytest.approx((1 / 2 + 1) / 2)
