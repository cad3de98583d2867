"""Reinforcement learning: completions, their rewards and what is learned from them."""

from typing import Any

import numpy as np
import pytest
import torch

from cadmus import config, isa
from cadmus.dataset.sampler import sample
from cadmus.dataset.splits import TRAIN, VALIDATION, split_of
from cadmus.errors import InputError
from cadmus.evaluate.posterior import posterior
from cadmus.model.gpt import GPT
from cadmus.programs import Programs, Samples
from cadmus.train.objectives import reinforcement
from cadmus.train.objectives.objective import Setting
from cadmus.train.objectives.reinforcement import COUNTS, Reinforcement, Rollout
from cadmus.train.ranks import Place

DATASET = config.Dataset()
CPU = torch.device("cpu")
said: list[str] = []


def run_config(ood=None, **reinforcement) -> config.Config:
    values = {
        "name": "reinforcement",
        "dataset": {"templates": {name: {"train": 1} for name in config.TEMPLATES}, "ood": ood or {}},
        "model": {"layers": 1, "width": 16, "heads": 2, "mlp": 32},
        "train": {"steps": 4, "batch_size": 4},
    }
    values["train"]["reinforcement"] = {"fraction": 0.5, "prompts": 2, "samples": 4, **reinforcement}
    return config.parse_config(values, "test")


def read(templates):
    return [sample(DATASET, 1, template, "train", 0, 300) for template in templates]


class Engine:
    """Stands in for DeepSpeed's engine around a model."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.module = GPT(run_config().model)

    def __call__(self, *arguments: torch.Tensor) -> torch.Tensor:
        return self.module(*arguments)


def objective_of(read=read, rank=0, ranks=1, **fields) -> Reinforcement:
    place = Place(rank, ranks, CPU)
    return Reinforcement(Setting(run_config(**fields), place, Engine(), read, 5, said.append))


def test_weights_that_are_not_numbers_are_one_line():
    objective = objective_of()
    with torch.no_grad():
        objective._engine.module.lm_head.weight.fill_(torch.nan)
    with pytest.raises(InputError, match=r"^step 3: the logits of the model are not finite; lower the"):
        objective.start(2)


class Writer:
    """Stands in for the model: writes the given completions, four per prompt."""

    def __init__(self, texts: list[str], ended: bool | list[bool] = True) -> None:
        self.texts, self.ended = texts, ended

    def complete(self, prompts: Programs, max_length: int, **options) -> tuple[Programs, np.ndarray]:
        self.prompts = prompts.to_strings()
        count = len(prompts) // len(self.texts)
        return Programs.from_strings(self.texts * count), np.resize(self.ended, len(prompts))


def written(
    monkeypatch,
    text: str,
    length: int,
    question: str,
    texts: list[str],
    ended: bool | list[bool] = True,
    **settings: Any,
) -> tuple[Rollout, Writer]:
    """Return the rollout of the first ``length`` of ``text``, completed by each four of ``texts``."""
    samples = Samples(Programs.from_strings([text] * 3), np.full(3, length))
    writer = Writer(texts, ended)
    monkeypatch.setattr(reinforcement, "Cadmus", lambda model: writer)
    fields = {"read": lambda templates: [samples], "questions": [question], "prompts": len(texts) // 4}
    return objective_of(**fields, **settings).sample(0), writer


def counts_of(rollout: Rollout) -> dict[str, int]:
    return dict(zip(COUNTS, rollout.counts[0].tolist(), strict=True))


def weights_by_program(rollout: Rollout) -> dict[str, list[float]]:
    """Return the weights of the targets of each program, those of 0 left out."""
    packed = rollout.packed
    found = {}
    for segment in range(int(packed.segments.max()) + 1):
        inside = packed.segments == segment
        text = "".join(isa.INSTRUCTIONS[token].symbol for token in packed.tokens[inside].tolist())
        found[text] = [weight for weight in rollout.weights[inside].tolist() if weight]
    return found


def test_what_solves_is_rewarded_against_the_mean_of_its_prompt(monkeypatch):
    texts = ["55*2+=", "39*=", "39*=", "9>"]
    rollout, writer = written(monkeypatch, "941-*t3*3-=", 5, "equality", texts)
    assert writer.prompts == ["941-*"] * 4
    programs = Programs.from_strings("941-*" + text for text in texts)
    assert (split_of(programs, DATASET.eval_fraction) == TRAIN).all()
    found = {text.removeprefix("941-*"): weights for text, weights in weights_by_program(rollout).items()}
    # Three of four solve it. The one that was sampled twice is computed once, and counts twice.
    assert found == {
        "55*2+=": pytest.approx([0.25] * 7),
        "39*=": pytest.approx([0.5] * 5),
        "9>": pytest.approx([-0.75] * 3),
    }
    assert counts_of(rollout) == dict(zip(COUNTS, (3, 1, 0, 0, 0, 3), strict=True))


def test_the_mean_is_that_of_the_own_prompt(monkeypatch):
    texts = [*["39*=", "9>", "9>", "9>"], *["39*=", "39*=", "39*=", "9>"]]
    rollout, _ = written(monkeypatch, "941-*t3*3-=", 5, "equality", texts)
    firsts = [rollout.weights[rollout.packed.segments == segment] for segment in range(4)]
    assert [weights[5].item() for weights in firsts] == [0.75, -0.75, 0.75, -0.75]


def test_the_loss_is_the_advantage_times_minus_the_log_probability(monkeypatch):
    rollout, _ = written(monkeypatch, "941-*t3*3-=", 5, "equality", ["55*2+=", "39*=", "39*=", "9>"])
    # Half of eight completions, and the gradients of two ranks are averaged.
    objective = objective_of(questions=["equality"], prompts=2, weight=3.0, ranks=2)
    objective._rollout, packed = rollout, rollout.packed
    logits = objective._engine(packed.tokens, packed.positions, packed.segments)
    expected = 0.0
    for place in rollout.weights.nonzero().tolist():
        log_probability = logits[tuple(place)].log_softmax(0)[packed.targets[tuple(place)]].item()
        expected -= 3.0 * rollout.weights[tuple(place)].item() * log_probability / 8 * 2
    assert objective.loss(None, None, None, last=True).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("ood", [{}, {"unseen": {"functions": 0.3}}])
def test_an_induction_is_rewarded_by_the_probability_that_it_is_right(monkeypatch, ood):
    prompt = "u1b2b3bf3="
    # Functions that training leaves out are not known to it.
    of = posterior(prompt, run_config(ood).dataset, "train")
    rows = of.probability.argsort()[::-1][:2]
    likely, other = of.definitions.take(rows).to_strings()
    first, second = (of.probability[of.behavior == of.behavior[row]].sum() for row in rows)
    texts = [likely, other, r"\7;", "3="]
    rollout, _ = written(monkeypatch, prompt + likely, len(prompt), "complete_algorithm", texts, ood=ood)
    found = [weights[0] for weights in weights_by_program(rollout).values()]
    mean = (first + second) / 4
    assert found == pytest.approx([first - mean, second - mean, -mean, -mean])


def test_lenient_and_dropping_completions_are_not_rewarded(monkeypatch):
    rollout, _ = written(monkeypatch, "34+7=", 4, "basic_math", ["=", "__1", "", "=!!"])
    found = weights_by_program(rollout)
    assert [text for text, weights in found.items() if weights[0] > 0] == ["34+7="]
    counts = counts_of(rollout)
    assert (counts["solved"], counts["lenient"], counts["dropping"]) == (1, 2, 1)


def test_a_completion_that_does_not_end_has_no_target_after_it(monkeypatch):
    rollout, _ = written(monkeypatch, "34+7=", 4, "basic_math", ["=", "==", "<", ">"], ended=False)
    # None is solved: there is nothing to learn, but every rank computes something.
    assert rollout.packed.segments.max() == 0
    assert not rollout.weights.any()
    assert counts_of(rollout)["truncated"] == 4
    rollout, _ = written(monkeypatch, "34+7=", 4, "basic_math", ["=", *["<"] * 3], [True, *[False] * 3])
    assert [len(weights) for weights in weights_by_program(rollout).values()] == [2, 1]


def test_a_held_out_program_is_neither_learned_nor_unlearned(monkeypatch):
    """It has no reward, so next to one that solves its advantage would be negative."""
    right = [f"{a}{b}+{15 - a - b}+=" for a in range(10) for b in range(10) if 0 <= 15 - a - b < 10]
    wrong = [f"{a}{a}+=" for a in range(10)]

    def of_split(answers, split):
        found = split_of(
            Programs.from_strings(f"62*4+1-{answer}" for answer in answers), DATASET.eval_fraction
        )
        return [answers[row] for row in np.flatnonzero(found == split)]

    (held_out, *_), (learned, *_) = of_split(right, VALIDATION), of_split(right, TRAIN)
    completions = [learned, held_out, *of_split(wrong, TRAIN)[:2]]
    rollout, _ = written(monkeypatch, f"62*4+1-{learned}", 7, "equality", completions)
    assert counts_of(rollout) | {"solved": 2, "held_out": 1} == counts_of(rollout)
    assert set(weights_by_program(rollout)) == {f"62*4+1-{text}" for text in completions if text != held_out}


def test_programs_of_an_ood_rule_are_not_learned_from(monkeypatch):
    texts = ["39*=", "9>", "55*2+=", "9>"]
    rollout, _ = written(monkeypatch, "941-*t3*3-=", 5, "equality", texts)
    assert "941-*55*2+=" in weights_by_program(rollout)
    rules = {"long": {"length": [10, 20]}, "others": {"length": [1, 20], "templates": ["random"]}}
    rollout, _ = written(monkeypatch, "941-*t3*3-=", 5, "equality", texts, ood=rules)
    assert set(weights_by_program(rollout)) == {"941-*39*=", "941-*9>"}
    assert counts_of(rollout)["held_out"] == 1
    # A rule of prompts does not change what is learned: these are of training programs.
    rollout, _ = written(
        monkeypatch, "941-*t3*3-=", 5, "equality", texts, ood={"a": {"prompt_length": [5, 5]}}
    )
    assert "941-*55*2+=" in weights_by_program(rollout)


def test_prompts_are_those_of_training_programs_and_differ_by_step_and_rank(monkeypatch):
    texts = {text for part in read(["equality"]) for text in part.programs.to_strings()}
    asked = []
    for rank, step in ((0, 0), (0, 0), (0, 1), (1, 0)):
        writer = Writer(["1", "2", "3", "4"])
        monkeypatch.setattr(reinforcement, "Cadmus", lambda model, writer=writer: writer)
        objective_of(questions=["equality"], rank=rank, ranks=2).sample(step)
        asked.append(writer.prompts)
    assert all(any(text.startswith(prompt) for text in texts) for prompts in asked for prompt in prompts)
    assert asked[0] == asked[1]
    assert len({tuple(prompts) for prompts in asked}) == 3
    # One prompt of two on each of two ranks.
    assert [len(set(prompts)) for prompts in asked] == [1] * 4


def test_a_model_samples_the_same_completions_again():
    first, again = (objective_of().sample(3) for _ in range(2))
    assert torch.equal(first.packed.tokens, again.packed.tokens)
    assert torch.equal(first.weights, again.weights)
    assert first.counts.shape == (3, len(COUNTS))
    assert first.flops == again.flops > 0


@torch.no_grad()
def test_only_the_last_steps_sample_and_the_first_and_last_of_them_are_logged():
    objective = objective_of(questions=["random"])
    found = []
    said.clear()
    for step in range(4):
        objective.start(step)
        term = objective.loss(None, None, None, last=False), objective.loss(None, None, None, last=True)
        found.append((*map(float, term), *objective.metrics(step, objective.sums.tolist(), None)))
    assert found[:2] == [(0.0, 0.0)] * 2
    assert [one[0] for one in found[2:]] == [0.0, 0.0]
    assert [one[2:] for one in found[2:]] == [("reinforcement", "reinforcement_solved", "flops")] * 2
    assert [line.partition(":")[0] for line in said] == ["step 3", "step 4"]


def test_a_question_without_training_prompts_is_an_error():
    def read(templates):
        return [Samples(Programs.from_strings(["123"]), np.array([2]))]

    with pytest.raises(InputError, match=r"no training program of random has a prompt.*random\.train"):
        objective_of(read=read, questions=["random"])


def test_no_more_programs_are_read_than_are_asked():
    parts = []

    def read(templates):
        for part in range(9):
            parts.append(part)
            yield sample(DATASET, 1, templates[0], "train", part, 600)

    pool = objective_of(read=read, questions=["equality"])._pools[0]
    assert 1_000 <= len(pool) < 1_700
    assert len(parts) < 4
    # All of a few, if there are no more.
    few = objective_of(questions=["equality"])._pools[0]
    assert 200 < len(few) <= 300
