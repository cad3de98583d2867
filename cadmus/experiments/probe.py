"""Probes: logistic regressions on the hidden states of test comparisons (the paper's probe figure).

If a linear map reads a value from the hidden state of a token, the model has computed the value there. A
probe could also learn the task itself, so its accuracy is compared with two others: that of the most
frequent value given the instructions so far (majority), and that of a probe for permuted values (control).

The programs are ``expression expression comparator``, 5 + 5 + 1 instructions, uniform over all pairs of
five-instruction expressions with a value in the training range, as in the paper. For each of the two values,
each layer and each token, regressions are fitted on one part of the programs, the regularization is chosen on
a second part, and the accuracy is that on a third.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cadmus.columns import COUNT, FRACTION, LAYER, NONNEGATIVE, POSITIVE, one_of
from cadmus.config.evaluation import Probe
from cadmus.evaluate.statistics.results import MODEL, measured, with_accuracy
from cadmus.experiments.experiment import (
    ACCURACY,
    TOKEN,
    TOKENS,
    Experiment,
    Figure,
    Subject,
    Summary,
)
from cadmus.programs import Programs
from cadmus.tools import cores, generator, progress

if TYPE_CHECKING:
    from torch import Tensor

STATES_BYTES = 2 << 30
"""Memory for hidden states, of as many layers as fit, at least one."""
TOLERANCE, MOST_STEPS = 1e-3, 1_000
"""Of the solver, lbfgs."""


def measure(subject: Subject) -> pl.DataFrame:
    """Linear probes for X and Y at every layer and token.

    A probe is a logistic regression from the hidden state to the value.
    """
    from cadmus.evaluate.prompts.comparisons import sample_comparisons
    from cadmus.templates.expressions import HALF, short_expressions

    config, model = subject.config, subject.model()
    settings, values = config.evaluate.probe, config.dataset.values
    rng = generator(config.seed, "probe")
    programs, targets = sample_comparisons(rng, settings.programs, config.dataset, "evaluate.probe")
    table = short_expressions(HALF)
    inside = (table.values >= values.low) & (table.values <= values.high)
    baseline = majority(table.programs.take(inside), table.values[inside])
    fitted = settings.train_programs + settings.validation_programs
    permutation = generator(config.seed, "control").permutation(fitted)
    classes = np.stack(list(targets.values()))
    permuted = np.concatenate([classes[:, :fitted][:, permutation], classes[:, fitted:]], axis=1)
    tokens, prefixes = programs.data.reshape(len(programs), -1).T, prefix_ids(programs)
    rows = []
    by_layer = progress("probe", _states_by_layer(model, programs), config.model.layers + 1, "layer")
    for layer, states in by_layer:
        # Layer 0 is the embedding of the token.
        same = prefixes if layer else tokens
        correct, strengths = fit_probes(states, np.concatenate([classes, permuted]), same, settings)
        for row, target in enumerate(targets):
            rows.append(
                pl.DataFrame(
                    {
                        "target": target,
                        "layer": layer,
                        "token": np.arange(len(states)) + 1,
                        "programs": settings.test_programs,
                        "correct": correct[row],
                        "majority": baseline[target],
                        "control": correct[len(targets) + row] / settings.test_programs,
                        "inverse_regularization": strengths[row],
                    }
                )
            )
    return with_accuracy(pl.concat(rows)).sort("target", "layer", "token")


def majority(halves: Programs, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the accuracy of the most frequent value given the instructions so far, the baseline.

    The programs are all pairs of ``halves``, expressions of one length with ``values``, equally frequent, and
    the comparator. A value is independent of the other expression, and known once its own is complete.

    Returns ``x`` and ``y``, the accuracies at each token: float64, shape (2 * length + 1,).
    """
    length = int(halves.lengths[0])
    table = pl.DataFrame({"half": pl.from_arrow(halves.to_arrow()), "value": values})

    def accuracy(seen: int) -> float:
        counts = table.group_by(pl.col("half").str.head(seen), "value").len()
        right = counts.group_by("half").agg(pl.col("len").max())["len"].sum()
        return float(right / len(table))

    prior, *own = (accuracy(seen) for seen in range(length + 1))
    complete = own[-1]
    return {
        "x": np.array([*own, *[complete] * (length + 1)]),
        "y": np.array([*[prior] * length, *own, complete]),
    }


def fit_probes(
    features: np.ndarray, targets: np.ndarray, same: np.ndarray, settings: Probe
) -> tuple[np.ndarray, np.ndarray]:
    """Fit on the first programs, choose the regularization on the next and count the hits on the last.

    ``features`` are float32, shape (tokens, programs, width), ``targets`` the classes of the programs, shape
    (targets, programs), and ``same`` IDs, shape (tokens, programs), equal where features are.
    Returns the hits and the regularization, the strongest of the best, both of shape (targets, tokens).
    """
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    from cadmus.model.inference import one_thread

    # A thread per fit: an operation that PyTorch divides among threads waits for the slowest of them.
    with one_thread(), threadpool_limits(1):
        fits = Parallel(cores(), prefer="threads")(
            delayed(_right)(features[token], classes, same[token], settings)
            for classes in targets
            for token in range(len(features))
        )
    right = np.reshape(fits, (len(targets), len(features), len(settings.inverse_regularization), -1))
    on_validation, on_test = np.split(right, [settings.validation_programs], axis=3)
    best = on_validation.sum(3).argmax(2)
    hits = np.take_along_axis(on_test.sum(3), best[..., None], axis=2)[..., 0]
    return hits, np.array(settings.inverse_regularization)[best]


def _right(features: np.ndarray, classes: np.ndarray, same: np.ndarray, settings: Probe) -> list[np.ndarray]:
    """Fit a token's probes to the first programs; return which others each regularization predicts right."""
    import torch
    from sklearn.preprocessing import StandardScaler

    fitted = settings.train_programs
    # At early tokens, few rows represent all programs.
    pairs = np.stack([same[:fitted], classes[:fitted]])
    _, rows, counts = np.unique(pairs, axis=1, return_index=True, return_counts=True)
    scaler = StandardScaler().fit(features[rows], sample_weight=counts)
    known, others = (torch.from_numpy(scaler.transform(each)) for each in (features[rows], features[fitted:]))
    values, number = np.unique(classes[rows], return_inverse=True)
    weights = torch.from_numpy(counts.astype(np.float32))
    coefficients = np.zeros((len(values), known.shape[1] + 1))
    right = []
    for c in settings.inverse_regularization:
        # Each starts at the one before it.
        coefficients = logistic_regression(known, torch.from_numpy(number), weights, c, coefficients)
        logits = others @ torch.from_numpy(coefficients[:, :-1]).float().T
        logits += torch.from_numpy(coefficients[:, -1]).float()
        right.append(values[logits.argmax(1).numpy()] == classes[fitted:])
    return right


def logistic_regression(
    rows_NF: "Tensor", class_N: "Tensor", weight_N: "Tensor", c: float, start_CF: np.ndarray
) -> np.ndarray:
    """Return the coefficients of a multinomial logistic regression, the intercepts last: (C, F + 1).

    They are those of scikit-learn's ``LogisticRegression`` with this ``c``, found by the same solver, in
    two thirds of the time: PyTorch computes the softmax of a few dozen classes faster.
    """
    import torch
    from scipy.optimize import minimize

    total = float(weight_N.sum())
    penalty = 1 / (c * total)
    share_N = weight_N / total

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coefficients_CF = torch.from_numpy(flat.reshape(start_CF.shape)).float()
        weights_CF = coefficients_CF[:, :-1]
        logits_NC = torch.addmm(coefficients_CF[:, -1], rows_NF, weights_CF.T)
        log_p_NC = logits_NC.log_softmax(1)
        own_N = log_p_NC.gather(1, class_N[:, None])[:, 0]
        value = penalty / 2 * float(weights_CF.square().sum()) - float(share_N @ own_N)
        slope_NC = log_p_NC.exp_()
        slope_NC[torch.arange(len(class_N)), class_N] -= 1
        slope_NC *= share_N[:, None]
        slope_CF = torch.cat(
            [torch.addmm(weights_CF, slope_NC.T, rows_NF, beta=penalty), slope_NC.sum(0)[:, None]], 1
        )
        return value, slope_CF.double().numpy().ravel()

    options = {"maxiter": MOST_STEPS, "maxls": 50, "gtol": TOLERANCE, "ftol": 64 * np.finfo(float).eps}
    found = minimize(loss, start_CF.ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(start_CF.shape)


def prefix_ids(programs: Programs) -> np.ndarray:
    """Return an ID of each program's prefix up to each token: int64, shape (tokens, programs).

    Programs with the same ID have the same hidden state at the token.
    """
    instructions = programs.data.reshape(len(programs), -1)
    ids = [np.zeros(len(programs), np.int64)]
    for of_token in instructions.T:
        ids.append(np.unique(ids[-1] * 256 + of_token, return_inverse=True)[1])
    return np.stack(ids[1:])


def _states_by_layer(model: Any, programs: Programs) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each layer and its hidden states: float32, (tokens, programs, width)."""
    first, layers = 0, 1
    while first < layers:
        held: np.ndarray | None = None
        for rows, states in model.hidden_states(programs):
            if held is None:
                layers, _, tokens, width = states.shape
                shape = (tokens, len(programs), width)
                fitting = max(1, STATES_BYTES // (4 * math.prod(shape)))
                held = np.empty((min(fitting, layers - first), *shape), np.float32)
            held[:, :, rows] = states[first : first + len(held)].swapaxes(1, 2)
        assert held is not None, "there are programs"
        for offset, of_layer in enumerate(held):
            yield first + offset, of_layer
        first += len(held)


def metrics(results: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy in the final block at the token that ends the expression of each value."""
    from cadmus.templates.expressions import HALF

    end = pl.when(target="x").then(HALF).otherwise(2 * HALF)
    ends = results.filter(pl.col("layer") == pl.col("layer").max(), pl.col("token") == end)
    accuracies = pl.concat(
        ends.select(
            "programs", question="target", policy=pl.lit(policy), metric=pl.lit("probed"), accuracy=column
        )
        for policy, column in ((MODEL, "accuracy"), ("control", "control"))
    )
    return measured(accuracies)


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracy of the probes for both values by layer, where the comparator follows."""
    from cadmus.templates.expressions import HALF

    wide = results.filter(token=2 * HALF).pivot("target", index="layer", values=["accuracy", "control"])
    table = wide.select("layer", x="accuracy_x", x_control="control_x", y="accuracy_y", y_control="control_y")
    return Summary(
        f"probes for X and Y after token {2 * HALF}, where the comparator follows: accuracy on "
        f"{results['programs'][0]:,}\ntest programs, and that of probes for permuted values (control)",
        table,
    )


EXPERIMENT = Experiment(
    measure=measure,
    seconds=157,
    needs="hidden states",
    attention="causal",
    columns={
        **{"target": one_of(("x", "y")), "layer": LAYER, "token": TOKEN},
        **{"programs": POSITIVE, "correct": COUNT, **ACCURACY},
        **{"majority": FRACTION, "control": FRACTION, "inverse_regularization": NONNEGATIVE},
    },
    rules={
        "token: must be all from 1, of x and y": (
            pl.struct("target", "token").n_unique().over("layer") == 2 * TOKENS
        ),
    },
    metrics=metrics,
    summary=summarize,
    figures=(
        Figure(
            "probe_final_block",
            "Linear probes on the output of the final block: accuracy for X and Y at each token. Dashed: "
            "the optimum given the tokens read, the most frequent value of all expressions that start with "
            "them. Colored bands: 95% intervals; gray band: those of both controls, probes fitted to "
            "permuted values.",
        ),
        Figure(
            "probe_layers",
            "Linear probes: accuracy in % for X and Y at every layer and token. The scale starts at the "
            "accuracy of the most frequent value, the optimum before any token is read.",
        ),
    ),
)
