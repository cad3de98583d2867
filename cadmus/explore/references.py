"""References to compare the model with: a bigram baseline, and a linear probe for the top of the stack.

Both are fitted to programs of the test split, with the templates in the proportions of the training set. This
takes seconds, so the page asks for them after its first program.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cadmus import isa
from cadmus.config import TEMPLATES, Config, Dataset, StateLabels
from cadmus.dataset.sampler import sample
from cadmus.evaluate.regressions import Regressions
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, stack
from cadmus.tools import generator
from cadmus.train.labels import CLASSES, label_names, state_labels

PROGRAMS = 20_000
"""Programs whose bigrams are counted, about the least that the templates sample at once."""
FITTED, SCORED = 400, 200
"""Of them, those that the probe is fitted to, half a second of one core, and those that it is scored on."""
STEPS, BATCHES = 200, 20
"""Steps and minibatches of the probe's solver."""


@dataclass(frozen=True)
class References:
    """The bigrams, and a logistic regression from the output of a block to the label of the top of the stack.

    The labels are those of :mod:`cadmus.train.labels`: of what the program up to a token leaves. ``accuracy``
    is the fraction of scored tokens with the most likely label, ``majority`` with the most frequent one.
    """

    programs: int
    bigrams: np.ndarray  # How often each instruction follows each, as a fraction; shape (65, 65).
    layer: int  # From 1.
    supervised: bool  # The block was trained to predict the label.
    weights_DK: torch.Tensor
    intercepts_K: torch.Tensor
    accuracy: float
    majority: float

    def read(self, model: Cadmus, program: str) -> list[dict[str, Any]]:
        """Return the most likely label after each instruction, its probability, and the true label."""
        features, labels = _tokens(model, self.layer, Programs.from_strings([program]))
        probabilities, read = (features @ self.weights_DK + self.intercepts_K).softmax(-1).max(-1)
        names = label_names()
        rows = zip(read.tolist(), probabilities.tolist(), labels.tolist(), strict=True)
        return [
            {"label": names[label], "probability": round(probability, 4), "true": names[true]}
            for label, probability, true in rows
        ]


def fit(model: Cadmus, config: Config | None) -> References:
    """Sample programs, count their bigrams and fit the probe; ``config`` is that of the training, if known.

    The probe reads the block that state supervision trains, two before the last by default.
    """
    programs = _mixture(config.dataset if config else Dataset())
    train = config.train if config else None
    layer = (train and train.state_layer) or max(1, model.sizes.layers - 2)
    supervised = train is not None and train.state_weight > 0 and train.state_labels.top > 0
    features, labels = _tokens(model, layer, programs.take(np.arange(FITTED)))
    order = torch.from_numpy(generator(1, "probe").permutation(len(labels)))
    counts = torch.nn.functional.one_hot(labels, CLASSES).float()
    regressions = Regressions(features[None, order], counts[order])
    ((weights, intercepts),) = regressions.fit([1.0], [STEPS], BATCHES)
    probe = weights[0], intercepts[0, 0]
    features, expected = _tokens(model, layer, programs.take(np.arange(FITTED, FITTED + SCORED)))
    right = (features @ probe[0] + probe[1]).argmax(-1) == expected
    shares = (float(hits.float().mean()) for hits in (right, expected == counts.sum(0).argmax()))
    return References(len(programs), _bigrams(programs), layer, supervised, *probe, *shares)


def _mixture(dataset: Dataset) -> Programs:
    """Return about :data:`PROGRAMS` programs in random order."""
    counts = {name: getattr(dataset.templates, name).train for name in TEMPLATES}
    scale = PROGRAMS / sum(counts.values())
    wanted = {name: round(scale * count) for name, count in counts.items()}
    programs = stack([sample(dataset, 1, name, "test", 0, n).programs for name, n in wanted.items() if n])
    return programs.take(generator(1, "references").permutation(len(programs)))


def _bigrams(programs: Programs) -> np.ndarray:
    tokens = programs.to_tokens()
    # Every program is followed by the end, the padding.
    after = np.pad(tokens[:, 1:], ((0, 0), (0, 1)), constant_values=isa.END_ID)
    inside = np.arange(tokens.shape[1]) < programs.lengths[:, None]
    counts = np.zeros((isa.VOCABULARY_SIZE, isa.VOCABULARY_SIZE))
    np.add.at(counts, (tokens[inside], after[inside]), 1)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _tokens(model: Cadmus, layer: int, programs: Programs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output of a block at every instruction, shape (tokens, width), and the labels."""
    labels = state_labels(programs, StateLabels())[:, 0]
    features = np.empty((len(labels), model.sizes.width), np.float32)
    for length in np.unique(programs.lengths):
        rows = np.flatnonzero(programs.lengths == length)
        tokens = programs.offsets[rows, None] + np.arange(length)
        for part, states in model.hidden_states(programs.take(rows)):
            features[tokens[part]] = states[layer]
    return torch.from_numpy(features), torch.from_numpy(labels)
