"""The best possible induction."""

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.errors import Defect
from cadmus.evaluate.criteria import Completed, induced
from cadmus.evaluate.posterior import (
    _that_fit,
    behavior_of,
    best_possible,
    credence,
    posterior,
    prior,
    surprise,
)
from cadmus.programs import Programs, join
from cadmus.templates import complete_algorithm
from cadmus.templates.behavior import fractions
from cadmus.templates.complete_algorithm import kind_of
from cadmus.templates.grammar import Grammar
from cadmus.templates.induction import computes

COUNT = 400


@pytest.fixture(scope="module")
def asked():
    return sample(Dataset(), 2, "complete_algorithm", "test", 0, COUNT)


def prompts(asked):
    return asked.programs.prefixes(asked.prompt_length.astype(np.int64)).to_strings()


@pytest.fixture(scope="module")
def posteriors(asked):
    return [posterior(prompt, Dataset()) for prompt in prompts(asked)]


def graded(asked, texts):
    length = asked.prompt_length.astype(np.int64)
    completions = Programs.from_strings(texts)
    return induced(Completed(asked.programs, length, completions, np.ones(len(asked), bool), Dataset()))


def best_of(of):
    """Return the likeliest definition of the most probable behavior, and the probability of this."""
    behavior, probability = of.by_behavior()
    chosen = np.where(of.behavior == behavior[probability.argmax()], of.probability, 0).argmax()
    return of.definitions.to_strings()[chosen], probability.max()


def test_the_function_of_the_program_is_possible(asked, posteriors):
    programs = zip(asked.programs.to_strings(), asked.prompt_length, posteriors, strict=True)
    for text, length, of in programs:
        assert text[length:] in of.definitions.to_strings()
        assert of.probability.sum() == pytest.approx(1)


def test_the_best_answer_is_right_as_often_as_it_says(asked, posteriors):
    best, probability = zip(*map(best_of, posteriors), strict=True)
    solved = graded(asked, best)
    deviation = np.sqrt(sum(p * (1 - p) for p in probability))
    assert solved.sum() == pytest.approx(sum(probability), abs=4 * deviation)


def test_the_credence_of_a_definition_is_the_probability_of_what_it_computes(asked, posteriors):
    best, probability = zip(*map(best_of, posteriors), strict=True)
    assert credence(prompts(asked), best, Dataset()) == pytest.approx(probability)
    (prompt, *_), (of, *_) = prompts(asked), posteriors
    texts = of.definitions.to_strings()
    likeliest = np.array([of.behavior == each for each in of.behavior]) @ of.probability
    assert credence([prompt] * len(texts), texts, Dataset()) == pytest.approx(likeliest)
    # One that no function of the grammar computes.
    assert credence([prompt], [r"\99*99*99***;"], Dataset()).tolist() == [0]


def test_no_policy_has_a_lower_loss(asked):
    """The mean surprise of the references is the entropy of the posteriors, within its deviation."""
    of_references = surprise(asked.programs, asked.prompt_length, Dataset(), "test")
    entropies = [
        -(of.probability * np.log(of.probability)).sum()
        for of in (posterior(text, Dataset()) for text in prompts(asked))
    ]
    deviation = np.std(of_references - entropies) / np.sqrt(COUNT)
    assert of_references.mean() == pytest.approx(np.mean(entropies), abs=4 * deviation)


def test_functions_that_a_rule_keeps_out_are_possible_in_ood_alone():
    ruled = Dataset(ood={"unseen": {"functions": 0.3}})
    for split, kept in (("test", False), ("ood", True)):
        asked = sample(ruled, 2, "complete_algorithm", split, 0, 40)
        for prompt in prompts(asked):
            of = posterior(prompt, ruled, split)
            programs = join(prompt.encode(), of.definitions)
            assert (fractions(programs) < 0.3).any() == kept


@pytest.fixture
def few_functions(monkeypatch):
    """Replace the functions that calculate a number by n + 1, n + 2 and 2n, of unequal probability."""
    grammar = Grammar((Grammar(("1",), ("1",), ("1",), ("2",)), "+"), ("2", "*"))
    kinds = list(complete_algorithm.KINDS)
    kinds[3] = (2, grammar, "calculate")
    monkeypatch.setattr(complete_algorithm, "KINDS", tuple(kinds))
    monkeypatch.setattr("cadmus.evaluate.posterior.KINDS", tuple(kinds))
    for cached in (_that_fit, behavior_of):
        cached.cache_clear()
    yield
    for cached in (_that_fit, behavior_of):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        # n + 1 has the probability 3/8, n + 2 has 1/8 and 2n has 4/8.
        ("1f2=", {r"\1+;": 3 / 7, r"\2*;": 4 / 7}),
        ("2f4=", {r"\2+;": 1 / 5, r"\2*;": 4 / 5}),
        ("1f2=3f4=", {r"\1+;": 1}),
        ("2f4=3f6=", {r"\2*;": 1}),
    ],
)
@pytest.mark.usefixtures("few_functions")
def test_the_posterior_has_the_ratios_of_the_grammar(prompt, expected):
    of = posterior(prompt, Dataset())
    found = dict(zip(of.definitions.to_strings(), of.probability.tolist(), strict=True))
    assert found == pytest.approx(expected)
    best = best_possible(Programs.from_strings([prompt]), Dataset(), "test")
    assert best.tolist() == pytest.approx([max(expected.values())])
    # Without the examples, the most probable of all three.
    assert prior(prompt, Dataset()) == computes(prompt, [r"\2*;"], Dataset())


def test_functions_that_make_a_program_too_long_are_impossible():
    prompt = "3f5=4f6="
    every = posterior(prompt, Dataset())
    limit = len(prompt) + int(every.definitions.lengths.min())
    short = posterior(prompt, Dataset(max_length=limit))
    fits = every.definitions.lengths + len(prompt) <= limit
    assert 0 < fits.sum() < len(fits)
    assert short.definitions.to_strings() == every.definitions.take(fits).to_strings()
    ratios = every.probability[fits] / every.probability[fits].sum()
    assert short.probability == pytest.approx(ratios)


def test_a_prompt_without_a_kind():
    with pytest.raises(Defect, match="does not show one kind"):
        kind_of("u1b2b3lu3b2l!")
