"""Speed of the probes, compared with scikit-learn on the same hidden states."""

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
from cadmus.bench import Measured, median_seconds
from cadmus.config.evaluation import Probe
from cadmus.evaluate.comparisons import sample_comparisons
from cadmus.experiments.probe import prefix_ids, score
from cadmus.model.inference import Cadmus
from cadmus.tools import cores, progress

TARGET = "x"
SETTINGS = Probe()
# More than a fit of scikit-learn needs.
ITERATIONS = 10_000


def bench_probe(directory: Path) -> Measured:
    """Probe X on the output of the final block, for all tokens and regularisations.

    scikit-learn uses its default tolerance after a ``StandardScaler`` and fits one token and regularisation
    per core at a time.

    Raises:
        InputError: ``directory`` is not a model export.
    """
    settings = SETTINGS
    model = Cadmus.load(directory)
    dataset = config.Dataset()
    count = settings.train_programs + settings.validation_programs + settings.test_programs
    rng = np.random.default_rng(0)
    programs, targets = sample_comparisons(
        rng, count, dataset.values, dataset.eval_fraction, "evaluate.probe"
    )
    states = np.concatenate([states[-1] for _, states in model.hidden_states(programs)])
    # Shape (tokens, programs, width).
    features = np.ascontiguousarray(states.swapaxes(0, 1))
    classes = targets[TARGET]
    hits: dict[str, np.ndarray] = {}

    def ours() -> None:
        hits["cadmus"], _ = score(torch.from_numpy(features), classes, prefix_ids(programs), settings)

    def theirs() -> None:
        hits["scikit_learn"] = _scikit_learn(features, classes, settings)

    seconds = median_seconds({"cadmus": ours, "scikit_learn": theirs}, 1)
    difference = np.abs(hits["cadmus"] - hits["scikit_learn"]) / settings.test_programs
    facts = {
        "train_programs": settings.train_programs,
        "tokens": len(features),
        "regularisations": len(settings.inverse_regularisation),
        "width": features.shape[-1],
        "cores": cores(),
        "ratio": round(seconds["scikit_learn"] / seconds["cadmus"], 2),
        "mean_difference": round(float(difference.mean()), 4),
        "largest_difference": round(float(difference.max()), 4),
    }
    rows = {
        name: {
            "seconds": round(taken, 2),
            "accuracy": round(float(hits[name].mean()) / settings.test_programs, 4),
        }
        for name, taken in seconds.items()
    }
    return Measured(facts, rows)


def _scikit_learn(features: np.ndarray, classes: np.ndarray, settings: Probe) -> np.ndarray:
    """Return the correct test predictions per token, with the best regularisation in validation."""
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


def _fit(features: np.ndarray, classes: np.ndarray, c: float, settings: Probe) -> tuple[int, int]:
    fitted = settings.train_programs
    tested = fitted + settings.validation_programs
    standard = StandardScaler().fit(features[:fitted]).transform(features)
    regression = LogisticRegression(C=c, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        regression.fit(standard[:fitted], classes[:fitted])
    hits = regression.predict(standard[fitted:]) == classes[fitted:]
    return int(hits[: tested - fitted].sum()), int(hits[tested - fitted :].sum())
