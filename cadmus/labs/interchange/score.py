"""A score for features of hidden states, from any sparse autoencoder, probe or alignment search.

Features are trained without labels, and nobody knows what they should find in a language model. Here the
variables of the VM are known (:mod:`cadmus.evaluate.prompts.counterfactuals`), and whether the model uses
them. A feature is judged by what it tells about a variable (Karvonen et al. 2025), and by what an exchange of
its direction does to the answer.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from safetensors.torch import load_file
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from cadmus.config import Dataset
from cadmus.errors import InputError, reading
from cadmus.evaluate.prompts.counterfactuals import VARIABLES, counterfactuals
from cadmus.labs.interchange.patching import Pairs, attributions, counterfactual_answers, pairs_of, subspaces
from cadmus.model.inference import Cadmus
from cadmus.plugins import Scoring
from cadmus.tools import progress, seed_of

COLUMNS = "readable", "correlation", "matched", "interchange", "attributed", "learned", "random"
"""Scores, each at most 1: R² of a ridge regression on all features; correlation of the best feature, and of
one that no other variable has (its mean over variables is the MCC); counterfactual answers after an exchange
of the most correlated features' directions, of those that the answers are attributed to, and of as many
learned or random directions. The attributed ones are chosen by the answers, as the learned ones are."""
RIDGE = 10.0
_NAME = re.compile(r"layer\.(0|[1-9]\d{0,3})(\.bias|\.decoder)?", re.ASCII)


class Features(NamedTuple):
    """Features of the output of one layer."""

    encode: Callable[[Tensor], Tensor]
    """Maps states, (n, D), to features, (n, F)."""
    directions: Tensor
    """The contribution of each feature to a state: (F, D)."""


def read_features(path: Path) -> dict[int, Features]:
    """Read a safetensors file: ``layer.N``, shape (F, D), and optionally a bias and a decoder.

    With ``layer.N.bias``, shape (F,), features are what a ReLU leaves; without, they are linear.
    ``layer.N.decoder``, shape (F, D), has the directions, which are otherwise those of ``layer.N``. Layer 0
    is the embedding.
    """
    with reading(path, "give a safetensors file"):
        tensors = load_file(path)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise InputError(f"{path}: tensor {name!r}: must have finite floats")
    found: dict[int, Features] = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None or f"layer.{match[1]}" not in tensors:
            wanted = "layer.N, with layer.N.bias and layer.N.decoder if there are any"
            raise InputError(f"{path}: tensor {name!r}: names must be {wanted}")
        layer, encoder = int(match[1]), tensors[f"layer.{match[1]}"].float()
        shape = encoder.shape[:1] if match[2] == ".bias" else encoder.shape
        if tensor.shape != shape or encoder.ndim != 2 or not len(encoder):
            wanted = f"must be {tuple(shape)}" if encoder.ndim == 2 else "must be (features, width)"
            raise InputError(f"{path}: tensor {name!r}: has shape {tuple(tensor.shape)}; {wanted}")
        bias = tensors.get(f"layer.{layer}.bias")

        def encode(states: Tensor, encoder: Tensor = encoder, bias: Tensor | None = bias) -> Tensor:
            features = states @ encoder.T.to(states)
            return features if bias is None else torch.relu(features + bias.to(states))

        found[layer] = Features(encode, tensors.get(f"layer.{layer}.decoder", encoder).float())
    if not found:
        raise InputError(f"{path}: has no tensor; name one layer.N")
    return dict(sorted(found.items()))


def score(
    model: Cadmus,
    features: Mapping[int, Features],
    variables: Sequence[str] = (),
    programs: int = 500,
    directions: int = 8,
    seed: int = 0,
    dataset: Dataset | None = None,
) -> pl.DataFrame:
    """Score features by layer and variable; see :data:`COLUMNS`.

    Features are chosen on ``programs`` pairs of prompts and scored on as many others. Only pairs that the
    model answers rightly count; scores are null where there is none.
    """
    layers, width = model.sizes.layers, model.sizes.width
    for layer, of_layer in features.items():
        if not 0 <= layer <= layers:
            raise InputError(f"layer.{layer}: the model has {layers} layers, the embedding is 0")
        if of_layer.directions.shape[1] != width:
            wanted = f"the model has states of {width} numbers"
            raise InputError(f"layer.{layer}: has {of_layer.directions.shape[1]} columns; {wanted}")
    names = list(variables or VARIABLES)
    seeds = [seed_of(seed, "score", use) for use in ("choose", "test")]
    pairs = {
        name: [pairs_of(model, counterfactuals(name, programs, of_use, dataset)) for of_use in seeds]
        for name in names
    }
    known = [name for name in names if all(len(each.token) > 1 for each in pairs[name])]
    rows: list[dict[str, Any]] = []
    for layer, of_layer in progress("score", list(features.items())):
        size = min(directions, len(of_layer.directions))
        encoded = {name: [_encoded(of_layer, each, layer) for each in pairs[name]] for name in known}
        correlations = {name: [_correlations(*part) for part in encoded[name]] for name in known}
        table = np.array([correlations[name][0] for name in known])
        matched = dict(zip(known, linear_sum_assignment(-table)[1], strict=False)) if known else {}
        for name in names:
            chosen, tested = pairs[name]
            rows.append({"layer": layer, "variable": name, "programs": len(tested.token)})
            if name not in known:
                continue
            own, test = correlations[name]
            best = np.argsort(-own)[:size]
            attributed = attributions(model, chosen, layer, of_layer.directions).topk(size).indices
            bases = {
                "interchange": of_layer.directions[best].T.to(model.device),
                "attributed": of_layer.directions[attributed.cpu()].T.to(model.device),
                **subspaces(model, chosen, layer, size, seed_of(seed, name, layer)),
            }
            rows[-1] |= {
                "readable": _readable(*encoded[name][0], *encoded[name][1]),
                "correlation": test[best[0]],
                "matched": test[matched[name]] if name in matched else None,
                **{
                    method: counterfactual_answers(model, tested, layer, basis) / len(tested.token)
                    for method, basis in bases.items()
                },
            }
    kinds = {"layer": pl.Int64, "variable": pl.String, "programs": pl.Int64}
    return pl.DataFrame(rows, {**kinds, **dict.fromkeys(COLUMNS, pl.Float64)})


def _encoded(features: Features, pairs: Pairs, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features, (n, F), and values, (n,), of the bases of pairs, as float64."""
    states = pairs.base[layer][torch.arange(len(pairs.token)), pairs.token]
    with torch.no_grad():
        encoded = features.encode(states)
    return encoded.cpu().double().numpy(), pairs.value.cpu().double().numpy()


def _correlations(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the absolute correlation of each feature with the values: (F,)."""
    centered, wanted = features - features.mean(0), values - values.mean()
    size = np.sqrt((centered**2).sum(0) * (wanted**2).sum())
    return np.divide(abs(wanted @ centered), size, out=np.zeros(len(size)), where=size > 0)


def _readable(features: np.ndarray, values: np.ndarray, of_test: np.ndarray, wanted: np.ndarray) -> float:
    """Return R² on test pairs of a ridge regression on the standardized features."""
    regression = make_pipeline(StandardScaler(), Ridge(RIDGE)).fit(features, values)
    return float(regression.score(of_test, wanted))


SCORING = Scoring(read_features, score, COLUMNS, tuple(VARIABLES))
