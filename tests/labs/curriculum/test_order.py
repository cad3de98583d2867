"""The order of the training programs: epochs, stages and levels."""

from itertools import pairwise

import numpy as np
import pytest

from cadmus import config
from cadmus.config import TEMPLATES
from cadmus.labs.curriculum.order import LEVELS, Groups, levels_of
from cadmus.programs import Programs, Samples
from cadmus.templates.complete_algorithm import FIRST_EXAMPLE, complete_algorithm
from cadmus.templates.draw import Draw
from cadmus.train.objectives import make_loader
from cadmus.train.order import Order, programs_of
from tests.model.models import random_programs
from tests.train.runs import run_config

COUNTS = {"equality": 40, "random": 60, "complete_algorithm": 200}
"""Training programs, 300 as the worker has."""


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


def test_a_mixture_is_endless_epochs_each_another_permutation():
    assert programs_of(1, 5, 300, 6).tolist() == [46, 197, 49, 220, 95, 237], "the order of published models"
    sequence = np.concatenate([programs_of(step, seed=1, programs=10, batch_size=4) for step in range(10)])
    epochs = sequence.reshape(4, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_templates_join_in_the_first_half_of_the_steps():
    drawn, stages = curriculum("staged", steps=12), [*COUNTS]
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


@pytest.mark.parametrize("name", ["mixture", "staged", "level"])
def test_the_config_orders_the_batches_of_a_training(name):
    programs = random_programs(300, 4, 30, seed=3)
    training_set = Samples(programs, programs.lengths)
    batch = make_loader(config.parse_config(values_of(name), "test"), training_set, 5).load(1)
    order = Order(training_set, 5) if name == "mixture" else curriculum(name)
    assert batch.tokens == programs.lengths[order.draw(1, 32)].sum()
