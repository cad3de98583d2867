"""Multinomial logistic regression from the tokens of a prompt to its completion: it executes nothing.

A feature is a token at a position, counted from either end of the prompt, so that prompts of several lengths
line up, or also a pair of neighbors at a position. A class is one of the most frequent completions. The
regression is fitted by Adam without a penalty: for Table 3 of ``quick``, scikit-learn's
``LogisticRegression`` (tolerance 1e-3) takes 2.9 times the CPU time.

Shape suffixes: N prompts, P positions, C classes.
"""

from collections import Counter

import numpy as np
import torch
from torch.nn.functional import cross_entropy, embedding_bag

from cadmus import isa
from cadmus.model.inference import one_thread
from cadmus.programs import TOKEN_OF_BYTE, Programs

CLASSES = 100
"""Most frequent completions that a regression distinguishes."""
_EPOCHS = 5
_BATCHES = 50
_LEARNING_RATE = 0.1
"""At first; it decays to 0."""
_DECAY = 0.9, 0.999
"""Of Adam's moments."""
_LITERALS = np.array([row.group == "literals" for row in isa.INSTRUCTIONS])


class Linear:
    """A regression fitted to the prompts and completions of training programs, at least one.

    With ``operators_only``, all literals are one token, which leaves only the other instructions. ``pairs``
    adds pairs of neighbors.
    """

    def __init__(
        self, prompts: Programs, completions: Programs, operators_only: bool = False, pairs: bool = False
    ) -> None:
        texts = completions.to_strings()
        self._classes = [text for text, _ in Counter(texts).most_common(CLASSES)]
        class_of = {text: number for number, text in enumerate(self._classes)}
        classes_N = torch.tensor([class_of.get(text, -1) for text in texts])
        kept = np.flatnonzero(classes_N >= 0)
        self._positions = int(prompts.lengths.max(initial=1))
        self._operators_only, self._pairs = operators_only, pairs
        found = np.unique(self._at_positions(prompts.take(kept)))
        self._known = found[found >= 0]
        self._padding = len(self._known)
        self._weights_FC = torch.zeros(self._padding + 1, len(self._classes), requires_grad=True)
        self._intercepts_C = torch.zeros(len(self._classes), requires_grad=True)
        with one_thread():
            self._fit(self._features(prompts.take(kept)), classes_N[kept])

    def complete(self, prompts: Programs) -> Programs:
        """Return the likeliest completion of each prompt."""
        with torch.inference_mode(), one_thread():
            rows = self._logits(self._features(prompts)).argmax(1).numpy()
        return Programs.from_strings(self._classes).take(rows)

    def _fit(self, features_NP: torch.Tensor, classes_N: torch.Tensor) -> None:
        # Not torch.optim.Adam, which imports the compiler of PyTorch: 5 seconds.
        parameters = self._weights_FC, self._intercepts_C
        moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]
        steps, batches = _EPOCHS * _BATCHES, min(_BATCHES, len(classes_N))
        for step in range(steps):
            batch = slice(step % batches, None, batches)
            loss = cross_entropy(self._logits(features_NP[batch]), classes_N[batch])
            rate = _LEARNING_RATE * (1 - step / steps)
            for parameter, gradient, (mean, square) in zip(
                parameters, torch.autograd.grad(loss, parameters), moments, strict=True
            ):
                mean.lerp_(gradient, 1 - _DECAY[0])
                square.lerp_(gradient.square_(), 1 - _DECAY[1])
                scale = (square / (1 - _DECAY[1] ** (step + 1))).sqrt_().add_(1e-8)
                parameter.data.addcdiv_(mean, scale, value=-rate / (1 - _DECAY[0] ** (step + 1)))

    def _logits(self, features_NP: torch.Tensor) -> torch.Tensor:
        bags_NC = embedding_bag(features_NP, self._weights_FC, mode="sum", padding_idx=self._padding)
        return bags_NC + self._intercepts_C

    def _features(self, prompts: Programs) -> torch.Tensor:
        """Return the number of each feature, ``_padding`` for what a prompt has not: int64, shape (n, P)."""
        features_NP = self._at_positions(prompts)
        row = np.minimum(np.searchsorted(self._known, features_NP), len(self._known) - 1)
        return torch.from_numpy(np.where(self._known[row] == features_NP, row, self._padding))

    def _at_positions(self, prompts: Programs) -> np.ndarray:
        """Return the tokens or pairs of tokens at each position, with the position; -1 beyond a prompt."""
        position = np.arange(self._positions)
        features: list[np.ndarray] = []
        for starts, step in ((prompts.offsets[:-1], 1), (prompts.offsets[1:] - 1, -1)):
            tokens = [
                np.where(
                    position + ahead < prompts.lengths[:, None],
                    self._tokens(prompts, starts[:, None] + step * (position + ahead)),
                    -1,
                )
                for ahead in range(self._pairs + 1)
            ]
            for token, *others in (tokens[:1], tokens)[: self._pairs + 1]:
                of_position = position + self._positions * len(features)
                numbers = token
                for other in others:
                    numbers = np.where(other < 0, -1, numbers * isa.VOCABULARY_SIZE + other)
                features.append(np.where(numbers < 0, -1, numbers + isa.VOCABULARY_SIZE**2 * of_position))
        return np.hstack(features)

    def _tokens(self, prompts: Programs, at: np.ndarray) -> np.ndarray:
        tokens = TOKEN_OF_BYTE[prompts.data[np.clip(at, 0, len(prompts.data) - 1)]]
        if self._operators_only:
            tokens[_LITERALS[tokens]] = isa.TOKEN_ID["0"]
        return tokens
