"""Probes, on hidden states that encode a value at one layer and token."""

from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest
import torch

from cadmus.config.evaluation import Probe
from cadmus.experiments import probe as module
from cadmus.experiments.probe import fit_probes, majority, measure, prefix_ids
from cadmus.programs import Programs
from cadmus.vm.reference import run
from tests.experiments.subjects import subject_of

SMALL = Probe(train_programs=300, validation_programs=100, test_programs=200, inverse_regularization=[0.1, 1])


class Revealing:
    """Model whose hidden states are noise, except for the first value at one layer and token."""

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


def informative(n: int, tokens: int = 3, width: int = 12, classes: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return features on very different scales, one of them constant, and their classes.

    Later tokens have noisier features.
    """
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(tokens, classes, width))
    labels = rng.integers(classes, size=n)
    spread = np.array([0.5, 1, 4])[:tokens, None, None]
    features = centers[:, labels] + spread * rng.normal(size=(tokens, n, width))
    features = (features @ rng.normal(size=(tokens, width, width))) * np.logspace(-2, 2, width) + 5
    features[..., 0] = 3
    return features.astype(np.float32), labels


def test_a_value_is_decoded_only_where_it_is_linear() -> None:
    results = measure(subject_of(Revealing(layer=1, token=7), 0, 3, {"probe": SMALL.model_dump()}))
    assert results.height == 2 * 3 * 11
    here = (pl.col("target") == "x") & (pl.col("layer") == 1) & (pl.col("token") == 7)
    assert results.filter(here)["accuracy"][0] > 0.99
    assert results.filter(~here)["accuracy"].max() < 0.75
    assert (results["programs"] == 200).all()
    best_guess = results.filter(target="y", token=1)["majority"][0]
    assert results["control"].max() < best_guess + 0.1
    assert set(results["inverse_regularization"]) <= set(SMALL.inverse_regularization)
    assert results.filter(~(pl.col("low") <= pl.col("accuracy"))).is_empty()


def test_the_regularization_is_chosen_on_validation_and_scored_on_test() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 900, 40)).astype(np.float32)
    features[1, :, 0] *= 30
    labels = (features[1, :, 0] > 0).astype(np.int64)
    settings = Probe(train_programs=100, validation_programs=400, test_programs=400)
    each_its_own = np.tile(np.arange(900), (2, 1))
    on_test = {}
    for c in settings.inverse_regularization:
        one = settings.model_copy(update={"inverse_regularization": [c]})
        on_test[c] = fit_probes(features, labels[None], each_its_own, one)[0][0]
    # Warm starts change only the last digits.
    (correct,), (taken,) = fit_probes(features, labels[None], each_its_own, settings)
    for token in range(2):
        assert correct[token] == pytest.approx(on_test[taken[token]][token], abs=8)
    # Only the validation programs choose the regularization.
    swapped = labels.copy()
    swapped[500:] = 1 - swapped[500:]
    (opposite,), (still,) = fit_probes(features, swapped[None], each_its_own, settings)
    assert np.array_equal(still, taken)
    assert np.array_equal(opposite, 400 - correct)
    # Nor does the scale of the features know those of a test program.
    features[:, -1] = 1e6
    assert fit_probes(features, labels[None], each_its_own, settings)[0][0] == pytest.approx(correct, abs=1)


def test_equal_prefixes_have_the_same_id() -> None:
    texts = [f"{k * k % 1000:03}" for k in range(100)]
    for token, ids in enumerate(prefix_ids(Programs.from_strings(texts))):
        prefixes = [text[: token + 1] for text in texts]
        assert len(set(ids)) == len(set(prefixes)) == len(set(zip(ids, prefixes, strict=True)))


def test_tokens_with_shared_prefixes_give_the_same_fit() -> None:
    features, labels = informative(3_000)
    labels = labels // 2
    # Only every tenth program has its own features; the others share them.
    features[1] = features[1, np.arange(3_000) // 10 * 10]
    order = np.random.default_rng(0).permutation(3_000)
    features, labels = features[:, order], labels[order]
    each_its_own = np.tile(np.arange(3_000), (3, 1))
    alike = each_its_own.copy()
    alike[1] = order // 10
    settings = Probe(train_programs=2_000, validation_programs=500, test_programs=500)
    (one_by_one,), _ = fit_probes(features, labels[None], each_its_own, settings)
    (together,), _ = fit_probes(features, labels[None], alike, settings)
    assert np.array_equal(one_by_one[[0, 2]], together[[0, 2]])
    assert one_by_one[1] == pytest.approx(together[1], abs=20)


def test_a_class_missing_in_training_is_never_predicted() -> None:
    features = np.zeros((1, 30, 2), np.float32)
    labels = np.array([4] * 28 + [5] * 2)
    settings = Probe(train_programs=10, validation_programs=10, test_programs=10)
    (correct,), (taken,) = fit_probes(features, labels[None], np.zeros((1, 30), np.int64), settings)
    assert correct.tolist() == [8]
    assert taken.tolist() == settings.inverse_regularization[:1]


@pytest.mark.parametrize("layers_at_a_time", [1, 2, 3])
def test_hidden_states_come_layer_by_layer_in_order(monkeypatch, layers_at_a_time) -> None:
    programs = Programs.from_strings([f"{k % 10}1+11*1+<" for k in range(300)])
    model = Revealing(layer=2, token=3)
    monkeypatch.setattr(module, "STATES_BYTES", layers_at_a_time * 11 * 300 * model.width * 4)
    passes = []
    monkeypatch.setattr(
        model, "hidden_states", lambda of: passes.append(1) or Revealing.hidden_states(model, of)
    )
    found = list(module._states_by_layer(model, programs))
    assert [layer for layer, _ in found] == [0, 1, 2]
    assert len(passes) == -(-3 // layers_at_a_time)
    assert all(states.shape == (11, 300, model.width) for _, states in found)
    assert (found[2][1][2].argmax(axis=1) == np.arange(300) % 10 + 1).all()


def test_majority_is_the_most_frequent_value_by_prefix() -> None:
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


def test_regressions_are_those_of_scikit_learn(monkeypatch) -> None:
    from sklearn.linear_model import LogisticRegression

    features, labels = informative(2_000)
    scaled = (features[1] - features[1].mean(0)) / (features[1].std(0) + 1e-9)
    weights = np.random.default_rng(1).integers(1, 4, 2_000)
    start = np.zeros((7, scaled.shape[1] + 1))
    monkeypatch.setattr(module, "TOLERANCE", 1e-6)
    for c in (0.1, 10.0):
        reference = LogisticRegression(C=c, tol=1e-6, max_iter=10_000).fit(scaled, labels, weights)
        rows, classes, counts = (
            torch.from_numpy(each) for each in (scaled, labels, weights.astype(np.float32))
        )
        found = module.logistic_regression(rows, classes, counts, c, start)
        logits = scaled @ found[:, :-1].T + found[:, -1]
        probabilities = torch.from_numpy(logits).softmax(1).numpy()
        assert abs(probabilities - reference.predict_proba(scaled)).max() < 2e-3
        assert (logits.argmax(1) != reference.predict(scaled)).mean() < 0.003
