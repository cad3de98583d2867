"""Logistic regressions on the hidden states of held-out comparisons (the paper's probe figure).

The programs are ``expression expression comparator``, 5 + 5 + 1 instructions, drawn as the paper says from
all five-instruction expressions with a value in the training range, each as likely as any other.  For each
of the two values, each layer and each token regressions are fitted to the programs of one part, the one whose
regularisation does best on a second part is taken, and it is scored on a third.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from cadmus.common.progress import progress
from cadmus.config import Probe, Values
from cadmus.evaluate.comparisons import HALF, sample_comparisons
from cadmus.evaluate.results import with_accuracy
from cadmus.probe import sizes
from cadmus.probe.majority import majority
from cadmus.probe.solver import Regressions
from cadmus.programs import Programs
from cadmus.templates.expressions import short_expressions


def probe(
    model: Any,
    settings: Probe,
    values: Values,
    eval_fraction: float,
    seed: int,
    device: torch.device | str = "cpu",
) -> pl.DataFrame:
    """Fit and score a regression for each value, layer and token.

    Args:
        model: has ``hidden_states(programs)`` as :class:`cadmus.model.Cadmus` does.
        settings: sizes and regularisations.
        values: the range of the training set; both values lie in it.
        eval_fraction: as the training set was split; only programs of the test split are used.
        seed: of the programs.
        device: where the regressions are fitted.

    Returns:
        target (``x`` or ``y``), layer (0 the embedding, k the output of block k), token (from 1), programs
        (scored), correct, accuracy, low, high, majority (accuracy of the best guess from the instructions
        seen so far), control (accuracy after the same with the values of the fitted programs exchanged among
        them), inverse_regularisation (the one taken).

    Raises:
        InputError: the range holds too few held-out programs.
    """
    programs, targets = sample_comparisons(
        np.random.default_rng([seed, *b"probe"]),
        settings.train_programs + settings.validation_programs + settings.test_programs,
        values,
        eval_fraction,
        "evaluate.probe",
    )
    table = short_expressions(HALF)
    inside = (table.values >= values.low) & (table.values <= values.high)
    baseline = majority(table.programs.take(inside), table.values[inside])
    fitted = settings.train_programs + settings.validation_programs
    exchanged = np.random.default_rng([seed, *b"control"]).permutation(fitted)
    prefixes = prefix_numbers(programs)
    rows = []
    with progress("probe", unit="layer") as bar:
        for layer, layers, states in _states_by_layer(model, programs):
            bar.total = layers
            features = torch.from_numpy(states).to(device)
            for target, classes in targets.items():
                correct, strengths = score(features, classes, prefixes, settings)
                without_meaning = np.concatenate([classes[:fitted][exchanged], classes[fitted:]])
                control, _ = score(features, without_meaning, prefixes, settings)
                rows.append(
                    pl.DataFrame(
                        {
                            "target": target,
                            "layer": layer,
                            "token": np.arange(len(correct)) + 1,
                            "programs": settings.test_programs,
                            "correct": correct,
                            "majority": baseline[target],
                            "control": control / settings.test_programs,
                            "inverse_regularisation": strengths,
                        }
                    )
                )
            bar.update()
    return (
        with_accuracy(pl.concat(rows))
        .select(
            *("target", "layer", "token", "programs", "correct", "accuracy", "low", "high"),
            *("majority", "control", "inverse_regularisation"),
        )
        .sort("target", "layer", "token")
    )


def score(
    features: Tensor, classes: np.ndarray, prefixes: np.ndarray, settings: Probe
) -> tuple[np.ndarray, np.ndarray]:
    """Fit on the first programs, choose the regularisation on the next and count the hits on the last.

    Args:
        features: float32, shape (tokens, programs, width).
        classes: of each program, shape (programs,).
        prefixes: as :func:`prefix_numbers` gives them, shape (tokens, programs).
        settings: how many programs the three parts have, and the regularisations to choose from.

    Returns:
        For each token the hits and the regularisation taken, the strongest of those that do best; shape
        (tokens,).
    """
    known, numbered = np.unique(classes, return_inverse=True)
    fitted = settings.train_programs
    expected = torch.from_numpy(numbered[fitted:]).to(features.device)
    right = np.empty((len(settings.inverse_regularisation), len(features), len(expected)), np.bool_)
    with torch.inference_mode():
        for tokens, rows, counts in _groups(prefixes[:, :fitted], numbered[:fitted], len(known)):
            of_tokens = features[tokens]
            regressions = Regressions(of_tokens[:, rows], torch.from_numpy(counts).to(features.device))
            for place, (weights, intercepts) in enumerate(regressions.fit(settings.inverse_regularisation)):
                logits = torch.baddbmm(intercepts, of_tokens[:, fitted:], weights)
                right[place, tokens] = (logits.argmax(-1) == expected).cpu().numpy()
    on_validation, on_test = np.split(right, [settings.validation_programs], axis=2)
    best = on_validation.sum(2).argmax(0)
    return (
        on_test.sum(2)[best, np.arange(len(best))],
        np.array(settings.inverse_regularisation)[best],
    )


def prefix_numbers(programs: Programs) -> np.ndarray:
    """For each token a number for what each program is up to there: int64, shape (tokens, programs).

    Programs with the same number have the same hidden states at the token.
    """
    instructions = programs.data.reshape(len(programs), -1)
    numbers = [np.zeros(len(programs), np.int64)]
    for of_token in instructions.T:
        numbers.append(np.unique(numbers[-1] * 256 + of_token, return_inverse=True)[1])
    return np.stack(numbers[1:])


def _groups(
    prefixes: np.ndarray, classes: np.ndarray, known: int
) -> Iterator[tuple[np.ndarray, np.ndarray | slice, np.ndarray]]:
    """Tokens that are fitted together, the programs that stand for all, and for how many of each class."""
    late = []
    for token, numbers in enumerate(prefixes):
        _, rows, stands_for = np.unique(numbers, return_index=True, return_inverse=True)
        if len(rows) > len(numbers) / 2:
            late.append(token)
            continue
        # The order of the programs is random, that of their prefixes is not.
        order = np.argsort(rows)
        counts = np.zeros((len(rows), known), np.float32)
        np.add.at(counts, (np.argsort(order)[stands_for], classes), 1)
        yield np.array([token]), rows[order], counts
    if late:
        yield np.array(late), slice(len(classes)), np.eye(known, dtype=np.float32)[classes]


def _states_by_layer(model: Any, programs: Programs) -> Iterator[tuple[int, int, np.ndarray]]:
    """Each layer, how many there are, and its hidden states: float32, shape (tokens, programs, width)."""
    first, layers = 0, 1
    while first < layers:
        held: np.ndarray | None = None
        for rows, states in model.hidden_states(programs):
            if held is None:
                layers, _, tokens, width = states.shape
                shape = (tokens, len(programs), width)
                count = sizes.layers_at_once(*shape)
                held = np.empty((min(count, layers - first), *shape), np.float32)
            held[:, :, rows] = states[first : first + len(held)].swapaxes(1, 2)
        assert held is not None, "there are programs"
        for place, of_layer in enumerate(held):
            yield first + place, layers, of_layer
        first += len(held)
