"""Values of functions, and the place that decides whether a rule keeps them out of training."""

import numpy as np
import pytest

from cadmus.config import OOD, Dataset
from cadmus.dataset.sampler import sample
from cadmus.programs import Programs
from cadmus.templates.behavior import behavior, fractions, fresh_calls, functions
from cadmus.templates.grammar import Grammar
from cadmus.vm.reference import run


def fractions_of(*texts):
    return fractions(Programs.from_strings(texts))


@pytest.mark.parametrize(
    ("calls", "same", "other"),
    [
        ("calculate", ["2*", "E+", "~~2*"], "3*"),
        ("label or reduce", ["L", "Z~?*L", "VL"], "$"),
        ("fold", ["+", "s+"], "-"),
        ("change", ["SV", "SV~~"], "VS"),
    ],
)
def test_functions_are_equal_if_they_compute_the_same(calls, same, other):
    definitions = Programs.from_strings(rf"\{body};" for body in [*same, other])
    first, *others, last = behavior(definitions, fresh_calls(Dataset().model_dump_json())[calls])
    assert set(others) == {first}
    assert last != first


def test_the_fraction_depends_on_what_is_computed_of_what():
    assert len(set(fractions_of(r"3f6=\2*;", r"\E+;3f6=", r"u3bmu6bY\2*;", r"u3b7bEm:\2*;"))) == 1
    of_sequence, of_number, of_pair = fractions_of(r"u3bfu6bY\2*;", r"3f6=\2*;", r"34F6=\2*;")
    assert len({of_sequence, of_number, of_pair}) == 3
    assert fractions_of(r"u3b4b1l8=\+;") == fractions_of(r"34F7=\s+;")
    assert np.isnan(fractions_of("12+3=", r"\2*;", r"3f\2*;4g\3*;")).all()


def test_fractions_are_uniform():
    drawn = sample(Dataset(), 1, "complete_algorithm", "train", 0, 20_000)
    found = np.unique(fractions(drawn.programs))
    assert len(found) > 3_000
    # Kolmogorov and Smirnov: at a distance of 1.95 / sqrt(n), p is below 0.1%.
    assert np.abs(found - np.arange(len(found)) / len(found)).max() < 1.95 / np.sqrt(len(found))


def test_no_function_of_ood_is_one_that_training_has():
    def functions(split):
        ruled = Dataset(ood={"unseen": {"functions": 0.2}})
        programs = sample(ruled, 1, "complete_algorithm", split, 0, 2_000).programs.to_strings()
        bodies = {text.split("\\")[1] for text in programs if text[1:2] == "f"}
        return {
            tuple(str(run(rf"\{body}{literal}f").outputs) for literal in "0123456789tZ") for body in bodies
        }

    trained, unseen = functions("train"), functions(OOD)
    assert len(trained) > 200 < 3 * len(unseen)
    assert not trained & unseen


def test_a_function_has_its_likeliest_spelling():
    grammar = Grammar(("2", "*"), ("E", "+"), ("2", "*"), ("3", "*"), ("3", "0", "+", "*"))
    found = functions(grammar, "calculate")
    assert dict(
        zip(found.definitions.to_strings(), found.probability.tolist(), strict=True)
    ) == pytest.approx({r"\2*;": 0.6, r"\3*;": 0.4})
    drawn = found.draw(np.random.default_rng(0), 1_000).to_strings()
    assert 0.55 < drawn.count(r"\2*;") / 1_000 < 0.65
