"""The order of the training programs: epochs, stages, levels, and by the rates of solving."""

import shutil
from itertools import pairwise

import numpy as np
import pytest

from cadmus import config
from cadmus.config import TEMPLATES
from cadmus.errors import InputError
from cadmus.labs.curriculum.curriculum import Curriculum
from cadmus.labs.curriculum.order import LEVELS, SMALLEST, Groups, levels_of
from cadmus.programs import Programs, Samples
from cadmus.templates.complete_algorithm import FIRST_EXAMPLE, complete_algorithm
from cadmus.templates.draw import Draw
from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Setting
from cadmus.train.objectives.sampler import Sampler
from cadmus.train.order import Order, programs_of
from cadmus.train.ranks import ALONE
from tests.model.models import random_programs
from tests.train import worker
from tests.train.runs import assert_same_model, go_back, losses, metrics, run_config, train, train_ranks
from tests.train.test_loop import train_ahead

COUNTS = {"equality": 40, "random": 60, "complete_algorithm": 200}
"""Training programs, 300 as the worker has."""
PLACES = [TEMPLATES.index(name) for name in COUNTS]


def values_of(name: str, seed: int = 0, **fields) -> dict:
    values = run_config(curriculum={"order": name, "seed": seed}, **fields)
    templates = {template: {"train": count} for template, count in COUNTS.items()}
    return config.merged(values, {"dataset": {"templates": {"random": {"train": 0}, **templates}}})


def curriculum(name: str, **fields) -> Groups:
    programs = random_programs(300, 4, 30, seed=3)
    run = config.parse_config(values_of(name, **fields), "test")
    return Groups(Samples(programs, programs.lengths), 5, run)


def counts_of(**counts) -> np.ndarray:
    return np.array([counts.get(name, 0) for name in TEMPLATES])


def test_each_epoch_is_another_permutation():
    sequence = np.concatenate([programs_of(step, seed=1, programs=10, batch_size=4) for step in range(10)])
    epochs = sequence.reshape(4, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_a_mixture_is_endless_epochs():
    assert programs_of(1, 5, 300, 6).tolist() == [46, 197, 49, 220, 95, 237], "the order of published models"
    programs = random_programs(300, 4, 30, seed=3)
    mixture = Order(Samples(programs, programs.lengths), 5)
    np.testing.assert_array_equal(mixture.draw(12, 32), programs_of(12, 5, 300, 32))


@pytest.mark.parametrize(
    ("name", "fields", "stages"),
    [
        ("staged", {}, ["equality", "random", "complete_algorithm"]),
    ],
)
def test_templates_join_in_the_first_half_of_the_steps(name, fields, stages):
    drawn = curriculum(name, steps=12, **fields)
    ends = np.cumsum([*COUNTS.values()])
    for step in (0, 1, 2, 3, 4, 5, 6, 11):
        joined = stages[: 1 + step // 2]
        shares = np.bincount(np.searchsorted(ends, drawn.draw(step, 6000), "right"), minlength=3) / 6000
        wanted = np.array([count if name in joined else 0 for name, count in COUNTS.items()])
        np.testing.assert_allclose(shares, wanted / wanted.sum(), atol=0.03)
        assert ((shares > 0) == (wanted > 0)).all()


def test_harder_programs_of_all_templates_join_in_the_first_half_of_the_steps():
    drawn = curriculum("level", steps=40)
    programs = random_programs(300, 4, 30, seed=3)
    levels = levels_of(Samples(programs, programs.lengths), counts_of(**COUNTS))
    ends = np.cumsum([*COUNTS.values()])
    for step, joined in ((0, 1), (2, 2), (9, 5), (18, 10), (39, 10)):
        batch = drawn.draw(step, 6000)
        assert np.unique(levels[batch]).tolist() == [*range(joined)]
        shares = np.bincount(np.searchsorted(ends, batch, "right")) / 6000
        np.testing.assert_allclose(shares, np.array([*COUNTS.values()]) / 300, atol=0.03)


def test_a_level_is_a_tenth_by_instructions_values_and_examples():
    by_values = [f"{digit}0+{digit}=" for digit in range(10)]
    # The last is the shortest, and executes two instructions and four calls of four.
    by_instructions = [*("0" * length for length in range(9, 18)), r"\1-ER;4f"]
    dataset = config.parse_config(run_config(), "test").dataset
    induced = complete_algorithm(Draw(np.random.default_rng(2), dataset), 50)
    written = Programs.from_strings([*by_values, *by_instructions])
    samples = Samples.concat([Samples(written, np.ones(20)), induced])
    levels = levels_of(samples, counts_of(equality=10, random=10, complete_algorithm=len(induced)))
    assert levels[:20].tolist() == [*range(LEVELS)] * 2
    prompts = induced.programs.prefixes(induced.prompt_length.astype(np.int64)).to_strings()
    examples = np.array([len(FIRST_EXAMPLE.findall(prompt)) for prompt in prompts])
    by_level = [examples[levels[20:] == level] for level in range(LEVELS)]
    assert examples.max() > examples.min()
    assert all(easier.min() >= harder.max() for easier, harder in pairwise(by_level))


def test_templates_that_are_solved_half_of_the_time_are_drawn_most():
    drawn = curriculum("solving")
    solved: dict[str, float | None] = dict.fromkeys(TEMPLATES)
    for _ in range(200):
        drawn.advance({"rates": {**solved, "equality": 1.0, "random": 0.0}})
    drawn.advance({"rates": None})
    # The third has not been measured, so its rate is that of the start.
    weights = drawn.weights(202)[PLACES]
    np.testing.assert_allclose(weights, [SMALLEST, SMALLEST, 0.25 + SMALLEST], atol=1e-4)
    assert drawn.weights(202).astype(bool).sum() == 3, "others have no programs"
    ends = np.cumsum([*COUNTS.values()])
    shares = np.bincount(np.searchsorted(ends, drawn.draw(202, 6000), "right"), minlength=3) / 6000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.03)


TRUE = {
    "equality": ["34+52+=", "62*84+=", "93-42+="],
    "random": ["34=5+", "43<7+"],
    "complete_algorithm": ["2f4=\\2*;", "3f6=\\2*;"],
}
"""True programs of the templates."""


def read_true(names):
    """Return training programs: those of the named templates, or of all, by their numbers in the config."""
    numbered = [np.resize(TRUE[name], COUNTS[name]) for name in names or TRUE]
    programs = Programs.from_strings([str(text) for texts in numbered for text in texts])
    prompt_length = [max(3, text.find("\\")) for text in programs.to_strings()]
    return [Samples(programs, np.array(prompt_length))]


# Each ends as it does itself, but those of 34+ with a comparator that does not hold.
ENDS = {text[:cut]: text[cut:] for texts in TRUE.values() for text in texts for cut in range(len(text))}
ENDS |= {"34+": "9>", "34+52+": ">"}


def test_the_rate_of_a_template_is_the_fraction_of_its_completions_that_solve(monkeypatch):
    run = config.parse_config(values_of("solving", steps=40), "test")
    objective = Curriculum(Setting(run, ALONE, None, read_true, 0, print))
    objective.start(1)
    batch = Batch([], 0, 0, 0, 0, 0)
    assert objective.metrics(1, objective.sums.tolist(), batch) == {}

    def complete(step, prompts, limits):
        texts = [ENDS[text] for text in prompts.to_strings()]
        return Programs.from_strings(texts), np.ones(len(texts), np.bool_)

    monkeypatch.setattr(objective._sampler, "complete", complete)
    objective.start(2)
    measured = objective.metrics(2, objective.sums.tolist(), batch)
    rates = measured["rates"]
    assert 0.4 < rates.pop("equality") < 0.9
    assert {name: rate for name, rate in rates.items() if rate is not None} == {
        "random": 1,
        "complete_algorithm": 1,
    }
    assert measured["flops"] > 0


def test_each_order_trains_another_model(tmp_path):
    final = set()
    for name in ("mixture", "staged", "level"):
        assert train(tmp_path / name, values_of(name)) == 0
        final.add(losses(tmp_path / name)[-1])
    assert len(final) == 3


def test_solving_needs_the_next_token():
    values = config.merged(values_of("solving"), {"model": {"attention": "full"}})
    with pytest.raises(
        InputError, match=r"^x.yaml: train.curriculum.order: solving needs model.attention causal$"
    ):
        config.parse_config(values, "x.yaml")


SOLVING = values_of("solving", batch_size=4)


def test_a_run_in_the_order_of_solving_resumes_to_the_same_losses(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "train_rank", _train_rank_on_true_programs)
    assert train_ranks(tmp_path / "whole", SOLVING, 2) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    go_back(tmp_path / "parts", 5)
    assert train_ranks(tmp_path / "parts", SOLVING, 2) == 0
    rates = metrics(tmp_path / "parts")[-1]["rates"]
    assert rates["equality"] > rates["random"] == 0
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert_same_model(tmp_path / "parts", tmp_path / "whole")


def _solve_some_equalities() -> None:
    """Train on true programs, and let the model solve a part of one template alone, so that rates differ."""

    def complete(self, step, prompts, limits):
        texts = [ENDS[text] if text[2:3] in ("+", "*", "-") else "=" for text in prompts.to_strings()]
        return Programs.from_strings(texts), np.ones(len(texts), np.bool_)

    worker.read, Sampler.complete = read_true, complete


def _train_rank_on_true_programs(*place) -> None:
    _solve_some_equalities()
    worker.train_rank(*place)


def _train_ahead_on_true_programs(*place) -> None:
    _solve_some_equalities()
    train_ahead(*place)


def test_a_run_ahead_of_its_device_has_the_same_order_of_solving(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "train_rank", _train_rank_on_true_programs)
    assert train_ranks(tmp_path / "waiting", SOLVING) == 0
    monkeypatch.setattr(worker, "train", _train_ahead_on_true_programs)
    assert train(tmp_path / "ahead", SOLVING) == 0
    assert losses(tmp_path / "ahead") == losses(tmp_path / "waiting")
