"""The speed of the probes, beside scikit-learn's regressions on the same hidden states."""

import time
import warnings
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from cadmus import config
from cadmus.bench import Measured
from cadmus.common.cores import cores
from cadmus.common.progress import progress
from cadmus.evaluate.comparisons import sample_comparisons
from cadmus.experiments.probe import Settings, prefix_ids, score
from cadmus.model.inference import Cadmus

TARGET = "x"
SETTINGS = Settings()
ITERATIONS = 10_000
"""More than a fit of scikit-learn needs."""


def bench_probe(directory: Path) -> Measured:
    """Probe X on the output of the final block, all tokens, each way with all regularisations.

    scikit-learn has its default tolerance, after its ``StandardScaler``, and fits one token and
    regularisation a core at a time.

    Raises:
        InputError: ``directory`` is no export.
    """
    settings = SETTINGS
    model = Cadmus.load(directory)
    dataset = config.Dataset()
    count = settings.train_programs + settings.validation_programs + settings.test_programs
    rng = np.random.default_rng(0)
    programs, targets = sample_comparisons(
        rng, count, dataset.values, dataset.eval_fraction, "evaluate.probe"
    )
    features = np.concatenate([states[-1] for _, states in model.hidden_states(programs)]).swapaxes(0, 1)
    features = np.ascontiguousarray(features)
    classes = targets[TARGET]

    start = time.perf_counter()
    ours, _ = score(torch.from_numpy(features), classes, prefix_ids(programs), settings)
    seconds = time.perf_counter() - start

    start = time.perf_counter()
    theirs = _scikit_learn(features, classes, settings)
    seconds_of_theirs = time.perf_counter() - start

    difference = (ours - theirs) / settings.test_programs
    return {
        "train_programs": settings.train_programs,
        "tokens": len(features),
        "regularisations": len(settings.inverse_regularisation),
        "width": features.shape[-1],
        "cores": cores(),
        "cadmus_seconds": round(seconds, 2),
        "scikit_learn_seconds": round(seconds_of_theirs, 2),
        "ratio": round(seconds_of_theirs / seconds, 2),
        "cadmus_accuracy": round(float(ours.mean()) / settings.test_programs, 4),
        "scikit_learn_accuracy": round(float(theirs.mean()) / settings.test_programs, 4),
        "mean_difference": round(float(np.abs(difference).mean()), 4),
        "largest_difference": round(float(np.abs(difference).max()), 4),
    }


def _scikit_learn(features: np.ndarray, classes: np.ndarray, settings: Settings) -> np.ndarray:
    """Hits on the test programs for each token, with the regularisation that does best on the others."""
    strengths = settings.inverse_regularisation
    tasks = [(token, c) for token in range(len(features)) for c in strengths]
    with threadpool_limits(1):
        hits = Parallel(cores(), prefer="threads")(
            delayed(_fit)(features[token], classes, c, settings)
            for token, c in progress("scikit-learn", tasks, unit="fit")
        )
    on_validation, on_test = np.array(hits).reshape(len(features), len(strengths), 2).transpose(2, 0, 1)
    best: np.ndarray = on_test[np.arange(len(features)), on_validation.argmax(1)]
    return best


def _fit(features: np.ndarray, classes: np.ndarray, c: float, settings: Settings) -> tuple[int, int]:
    fitted = settings.train_programs
    tested = fitted + settings.validation_programs
    standard = StandardScaler().fit(features[:fitted]).transform(features)
    regression = LogisticRegression(C=c, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        regression.fit(standard[:fitted], classes[:fitted])
    hits = regression.predict(standard[fitted:]) == classes[fitted:]
    return int(hits[: tested - fitted].sum()), int(hits[tested - fitted :].sum())
