"""Batched regressions, checked against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cadmus.evaluate.regressions import Regressions
from cadmus.experiments.probe import STEPS as FIRST

STEPS = [FIRST << place for place in range(3)]


def informative(n: int, tokens: int = 3, width: int = 12, classes: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return features on very different scales, one of them constant, and their classes.

    Later tokens have noisier features.
    """
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(tokens, classes, width))
    labels = rng.integers(classes, size=n)
    spread = np.array([0.5, 1, 4])[:tokens, None, None]
    features = centres[:, labels] + spread * rng.normal(size=(tokens, n, width))
    features = (features @ rng.normal(size=(tokens, width, width))) * np.logspace(-2, 2, width) + 5
    features[..., 0] = 3
    return features.astype(np.float32), labels


@pytest.mark.parametrize("strengths", [[0.01], [0.1, 1, 10]])
def test_regressions_match_scikit_learn(strengths) -> None:
    features, labels = informative(4_000)
    fitted = slice(0, 2_000)
    counts = torch.eye(7)[labels[fitted]]
    ours = Regressions(torch.from_numpy(features[:, fitted]), counts)
    for c, (weights, intercepts) in zip(
        strengths, ours.fit(strengths, STEPS[: len(strengths)], 20), strict=True
    ):
        logits = torch.from_numpy(features) @ weights + intercepts
        for of_token, of_ours in zip(features, logits, strict=True):
            theirs = make_pipeline(StandardScaler(), LogisticRegression(C=c, tol=1e-6, max_iter=10_000))
            theirs.fit(of_token[fitted], labels[fitted])
            right = of_ours.argmax(1).numpy() == labels
            assert abs(right[2_000:].mean() - theirs.score(of_token[2_000:], labels[2_000:])) < 0.005
            if c == strengths[0]:
                np.testing.assert_allclose(of_ours.softmax(1), theirs.predict_proba(of_token), atol=0.05)


def test_a_row_may_stand_for_several_programs() -> None:
    features, labels = informative(400)
    counts = np.eye(7, dtype=np.float32)[labels]
    counts[:200, 3] += 2
    rows, classes = np.nonzero(counts)
    repeats = counts[rows, classes].astype(int)
    order = np.random.default_rng(0).permutation(repeats.sum())
    rows, classes = np.repeat(rows, repeats)[order], np.repeat(classes, repeats)[order]
    each = np.eye(7, dtype=np.float32)[classes]
    given = torch.from_numpy(features)
    probabilities = []
    for x, y in ((given, counts), (given[:, rows], each)):
        weights, intercepts = next(Regressions(x, torch.from_numpy(y)).fit([0.1], STEPS[:1], len(y) // 100))
        probabilities.append((given @ weights + intercepts).softmax(-1))
    torch.testing.assert_close(*probabilities, rtol=0, atol=0.05)
