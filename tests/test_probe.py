"""Probes: what is decodable is found where it is, and the baseline is the best guess."""

from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest

from cadmus.config import Probe, Values
from cadmus.dataset.splits import TEST, split_of
from cadmus.errors import InputError
from cadmus.evaluate.comparisons import held_out_sample
from cadmus.probe.majority import majority
from cadmus.probe.regression import hidden_states, probe, score
from cadmus.programs import Programs
from cadmus.vm.compiled import verdicts
from cadmus.vm.reference import run

SMALL = Probe(train_programs=300, test_programs=200)


class Revealing:
    """Hidden states of noise, which at one layer and token hold the value of the first expression."""

    width = 12

    def __init__(self, layer: int, token: int) -> None:
        self.place = layer, token

    def hidden_states(self, programs: Programs):
        rng = np.random.default_rng(0)
        for start in range(0, len(programs), 128):
            part = slice(start, min(start + 128, len(programs)))
            states = rng.normal(size=(3, part.stop - part.start, 11, self.width)).astype(np.float32)
            for row, text in enumerate(programs.to_strings()[part]):
                layer, token = self.place
                states[layer, row, token - 1, run(text[:5]).outputs[0].value] += 30
            yield part, states


def test_a_value_is_decoded_only_where_it_is_linear() -> None:
    numbers = probe(Revealing(layer=1, token=7), SMALL, Values(low=0, high=3), 0.05, seed=1)
    assert numbers.height == 2 * 3 * 11
    here = (pl.col("target") == "x") & (pl.col("layer") == 1) & (pl.col("token") == 7)
    assert numbers.filter(here)["accuracy"][0] > 0.99
    assert numbers.filter(~here)["accuracy"].max() < 0.75
    assert (numbers["programs"] == 200).all()
    assert numbers.filter(~(pl.col("low") <= pl.col("accuracy"))).is_empty()


def test_the_number_of_jobs_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 2, 120, 5)).astype(np.float32)
    targets = {"x": rng.integers(3, size=120)}
    settings = Probe(train_programs=80, test_programs=40)
    assert score(states, targets, settings, 1).equals(score(states, targets, settings, 2))


def test_one_class_is_known_without_a_fit() -> None:
    states = np.zeros((1, 1, 20, 2), np.float32)
    targets = {"x": np.array([4] * 18 + [5] * 2)}
    fits = score(states, targets, Probe(train_programs=10, test_programs=10), 1)
    assert fits.rows() == [("x", 0, 1, 10, 8, 0)]


def test_hidden_states_lie_in_order(tmp_path) -> None:
    programs = Programs.from_strings([f"{k % 10}1+11*1+<" for k in range(300)])
    model = Revealing(layer=2, token=3)
    states = hidden_states(model, programs, tmp_path / "states.npy")
    assert states.shape == (3, 11, 300, model.width)
    assert (states[2, 2].argmax(axis=1) == np.arange(300) % 10 + 1).all()


def test_probed_programs_are_held_out_true_and_distinct() -> None:
    values = Values(low=-4, high=4)
    programs, targets = held_out_sample(np.random.default_rng(0), 2_000, values, 0.05, "evaluate.probe")
    texts = programs.to_strings()
    assert len(set(texts)) == 2_000
    assert verdicts(programs).all()
    assert (split_of(programs, 0.05) == TEST).all()
    for text, x, y in zip(texts[:50], targets["x"], targets["y"], strict=False):
        assert [run(text[:5]).outputs[0].value, run(text[5:10]).outputs[0].value] == [x, y]
    for side in targets.values():
        assert set(side.tolist()) == set(range(-4, 5))


def test_too_small_a_range_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"evaluate\.probe: 500 held-out comparisons"):
        held_out_sample(np.random.default_rng(0), 500, Values(low=-38, high=-38), 0.05, "evaluate.probe")
    with pytest.raises(InputError, match="0 were found"):
        held_out_sample(np.random.default_rng(0), 5, Values(low=900, high=950), 0.05, "evaluate.probe")


def test_majority_is_the_best_guess_by_prefix() -> None:
    halves = ["11+", "12+", "13x", "13-", "21+", "31+", "32n"]
    values = np.array([2, 3, 3, -2, 3, 4, 2])
    baseline = majority(Programs.from_strings(halves), values)

    pairs = [
        (a + b + "<", x, y)
        for a, x in zip(halves, values, strict=True)
        for b, y in zip(halves, values, strict=True)
    ]
    for token in range(1, 8):
        for target in ("x", "y"):
            groups = defaultdict(Counter)
            for text, x, y in pairs:
                groups[text[:token]][x if target == "x" else y] += 1
            best = sum(max(group.values()) for group in groups.values()) / len(pairs)
            assert baseline[target][token - 1] == pytest.approx(best)
