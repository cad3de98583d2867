"""Logistic regressions on the hidden states of held-out comparisons (the paper's probe figure).

The programs are ``expression expression comparator``, 5 + 5 + 1 instructions, drawn as the paper says from
all five-instruction expressions with a value in the training range, each as likely as any other.  For each
of the two values, each layer and each token a regression is fitted to the programs of one part and scored
on the others.
"""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from cadmus.config import Probe, Values
from cadmus.evaluate.comparisons import HALF, held_out_sample
from cadmus.evaluate.numbers import with_accuracy
from cadmus.files import reported
from cadmus.probe.majority import majority
from cadmus.programs import Programs
from cadmus.templates.expressions import expressions

TOLERANCE = 1e-3
"""Largest component of the gradient at which a fit counts as done."""


def probe(
    model: Any, settings: Probe, values: Values, held_out_share: float, seed: int, jobs: int = 1
) -> pl.DataFrame:
    """Fit and score a regression for each value, layer and token.

    Args:
        model: has ``hidden_states(programs)`` as :class:`cadmus.model.Cadmus` does.
        settings: sizes and regularisation.
        values: the range of the training set; both values lie in it.
        held_out_share: as the training set was split; only programs of the test split are used.
        seed: of the programs.
        jobs: fits at a time, each on one core.

    Returns:
        target (``x`` or ``y``), layer (0 the embedding, k the output of block k), token (from 1), programs
        (scored), correct, accuracy, low, high, majority (accuracy of the best guess from the instructions
        seen so far), iterations (of the solver).

    Raises:
        InputError: the range holds too few held-out programs.
    """
    programs, targets = held_out_sample(
        np.random.default_rng([seed, *b"probe"]),
        settings.train_programs + settings.test_programs,
        values,
        held_out_share,
        "evaluate.probe",
    )
    table = expressions(HALF)
    inside = (table.values >= values.low) & (table.values <= values.high)
    baseline = majority(table.programs.take(inside), table.values[inside])
    with tempfile.TemporaryDirectory(prefix="cadmus-probe-") as directory:
        states = hidden_states(model, programs, Path(directory) / "states.npy")
        fits = score(states, targets, settings, jobs)
    return with_accuracy(fits).select(
        *("target", "layer", "token", "programs", "correct", "accuracy", "low", "high"),
        pl.Series("majority", [baseline[row["target"]][row["token"] - 1] for row in fits.to_dicts()]),
        "iterations",
    )


def hidden_states(model: Any, programs: Programs, path: Path) -> np.ndarray:
    """Stream the hidden states of all programs to a file, of which a fit reads one layer and token.

    For 6,000 programs the file has 170 MB at 4 layers of width 128 and 6.4 GB at 18 of 1,280.

    Returns:
        float32, shape (layers + 1, tokens, programs, width), mapped from ``path``.
    """
    states = None
    for rows, batch in tqdm(model.hidden_states(programs), desc="hidden states", delay=2, disable=None):
        if states is None:
            layers, _, tokens, width = batch.shape
            shape = (layers, tokens, len(programs), width)
            states = np.lib.format.open_memmap(path, "w+", np.float32, shape)
            # Where the disk is full, a write to the mapped file would be the end of the process.
            with reported(path), path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        states[:, :, rows] = batch.swapaxes(1, 2)
    return states


def score(states: np.ndarray, targets: dict[str, np.ndarray], settings: Probe, jobs: int) -> pl.DataFrame:
    """Fit on the first ``train_programs`` rows and count the hits on the others.

    Args:
        states: float32, shape (layers, tokens, programs, width).
        targets: for each target a class of each program, shape (programs,).

    Returns:
        target, layer, token, programs, correct, iterations.
    """
    layers, tokens = states.shape[:2]
    tasks = [
        (target, layer, token) for target in targets for layer in range(layers) for token in range(tokens)
    ]
    with threadpool_limits(1), warnings.catch_warnings():
        # The column `iterations` tells which fits ran into the limit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = Parallel(jobs, prefer="threads", return_as="generator")(
            delayed(_fit)(states[layer, token], targets[target], settings) for target, layer, token in tasks
        )
        fits = list(tqdm(fits, total=len(tasks), desc="probe", delay=2, disable=None))
    return pl.DataFrame(
        [
            {"target": target, "layer": layer, "token": token + 1, **fit}
            for (target, layer, token), fit in zip(tasks, fits, strict=True)
        ]
    )


def _fit(features: np.ndarray, classes: np.ndarray, settings: Probe) -> dict[str, int]:
    fitted, scored = np.split(np.arange(len(classes)), [settings.train_programs])
    if len(np.unique(classes[fitted])) == 1:
        # Nothing to tell apart, and scikit-learn refuses to.
        correct, iterations = classes[scored] == classes[0], 0
    else:
        regression = make_pipeline(
            StandardScaler(),
            LogisticRegression(
                C=settings.inverse_regularisation, max_iter=settings.max_iterations, tol=TOLERANCE
            ),
        )
        regression.fit(features[fitted], classes[fitted])
        correct = regression.predict(features[scored]) == classes[scored]
        iterations = regression[-1].n_iter_[0]
    return {"programs": len(scored), "correct": int(correct.sum()), "iterations": int(iterations)}
