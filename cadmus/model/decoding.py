"""Completion of prompts: a decoder asks it for logits, and a function chooses instructions from them.

The decoder of a causal model writes from left to right; a lab may have another one for full attention.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import numpy as np
import torch

from cadmus import isa, plugins
from cadmus.errors import InputError
from cadmus.programs import BYTE_OF_TOKEN, Programs, offsets_of
from cadmus.tools import generator, progress

COMPACT_BELOW = 0.5  # of rows unfinished: compacting halves a batch, so all copies together are one cache
_PROGRAMS_AT_ONCE = 2_048  # each token has 65 log-probabilities: those of all programs would fill the memory
Choose = Callable[[torch.Tensor, np.ndarray], np.ndarray]
"""Maps logits, shape (n, 65), and the indices of their prompts, int64 of shape (n,), to the next token ids,
int64 of shape (n,). Those of an ended program are ignored; batches may call it from several threads."""
Completions = tuple[Programs, np.ndarray]
"""Without the end, and for each whether it ended: bool, shape (n,)."""


class Decoder(Protocol):
    """The completions of a model and their probabilities."""

    def complete(self, model: Any, prompts: Programs, limits: np.ndarray, choose: Choose) -> Completions:
        """Complete prompts to programs of at most ``limits`` instructions, int64 of shape (n,)."""

    def next_logits(self, model: Any, prompts: Programs) -> torch.Tensor:
        """Return the logits of the instruction after each prompt, in order of length: shape (n, 65)."""

    def log_likelihoods(
        self, model: Any, programs: Programs, prompt_length: np.ndarray, bar: bool = False
    ) -> np.ndarray:
        """Return the log-probabilities of completions, with their end: float64, shape (n,)."""


def decoder_of(attention: str) -> Decoder:
    """Return the decoder of models with this attention."""
    if attention == "causal":
        return LeftToRight()
    of_labs = plugins.declared("DECODERS")
    if attention not in of_labs:
        raise InputError(f"model.attention: {attention} needs a decoder of a lab that is not there")
    lab, name = of_labs[attention]
    decoder: Decoder = plugins.module(lab, name).decoder()
    return decoder


class LeftToRight:
    """Completes one instruction after the other, with a key-value cache."""

    def complete(self, model: Any, prompts: Programs, limits: np.ndarray, choose: Choose) -> Completions:
        room = (limits - prompts.lengths).max(initial=0)
        # The tokens of each completion, its end included; -1 after them. 65 ids fit in a byte.
        output = np.full((len(prompts), room + 1), -1, np.int8)

        def compute(rows: np.ndarray) -> None:
            self._complete_batch(model, prompts.take(rows), rows, limits[rows], choose, output)

        model.in_batches(compute, prompts.lengths)
        ends = output == isa.END_ID
        added = (output >= 0) & ~ends
        return Programs(BYTE_OF_TOKEN[output[added]], offsets_of(added.sum(1))), ends.any(1)

    def _complete_batch(
        self,
        model: Any,
        prompts: Programs,
        rows: np.ndarray,
        limits: np.ndarray,
        choose: Choose,
        output: np.ndarray,
    ) -> None:
        logits, cache = model.start(prompts)
        tokens = choose(logits, rows)
        lengths = prompts.lengths
        live = np.ones(len(rows), np.bool_)
        for step in count():
            # A program of the maximum length may still end.
            live &= (tokens == isa.END_ID) | (lengths < limits)
            output[rows[live], step] = tokens[live]
            live &= tokens != isa.END_ID
            if live.mean() < COMPACT_BELOW:
                rows, lengths, limits, tokens = rows[live], lengths[live], limits[live], tokens[live]
                unfinished, live = live, live[live]
                if not rows.size:
                    return
                cache.keep(torch.from_numpy(unfinished).to(model.device), int(lengths.max()))
            tokens = choose(model.token_logits(tokens, lengths, cache), rows)
            lengths = lengths + live

    def next_logits(self, model: Any, prompts: Programs) -> torch.Tensor:
        return model.prompt_logits(prompts)

    def log_likelihoods(
        self, model: Any, programs: Programs, prompt_length: np.ndarray, bar: bool = False
    ) -> np.ndarray:
        completions = programs.suffixes(prompt_length).to_strings()
        total = np.empty(len(programs))
        starts = range(0, len(programs), _PROGRAMS_AT_ONCE)
        for start in progress("loss", starts) if bar else starts:
            rows = np.arange(start, min(start + _PROGRAMS_AT_ONCE, len(programs)))
            for row, predicted in zip(rows, model.log_probabilities(programs.take(rows)), strict=True):
                following = [isa.TOKEN_ID[symbol] for symbol in completions[row] + isa.END]
                # The last instruction of the prompt predicts the first one of the completion.
                indices = prompt_length[row] - 1 + np.arange(len(following))
                total[row] = predicted[indices, following].sum(dtype=np.float64)
        return total


def greedy(logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
    """Return the most likely instruction of each row."""
    return logits.argmax(-1).cpu().numpy()


class TokenSampler:
    """Samples the next instructions of ``n`` prompts for :meth:`Cadmus.complete`, with its options.

    Samples depend on the seed, the index of the prompt, from ``first`` on, and its logits: not on the other
    prompts, nor on the batches in which they are completed.
    """

    def __init__(self, n: int, temperature: float, seed: int, top_p: float = 1.0, first: int = 0) -> None:
        self.temperature, self.seed, self.top_p, self.first = temperature, seed, top_p, first
        self._steps = np.zeros(n, np.int64)
        self._uniform: dict[int, np.ndarray] = {}

    def __call__(self, logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        # Logits of at most 0 do not overflow when divided by a small temperature.
        shifted = (logits - logits.max(-1, keepdim=True).values).cpu().double()
        if not shifted.isfinite().all():
            raise InputError("the logits of the model are not finite")
        probabilities = (shifted / self.temperature).softmax(-1)
        # Stable: equal probabilities in the order of ids, so that samples repeat.
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        # The instruction that reaches top_p is still inside, so the nucleus is never empty.
        nucleus = probabilities.where(probabilities.cumsum(-1) - probabilities < self.top_p, 0.0)
        reached = nucleus.cumsum(-1)
        uniform = torch.from_numpy(self._draw(rows))
        indices = (reached <= uniform[:, None] * reached[:, -1:]).sum(-1)  # of the nucleus, not of 1
        return order.gather(-1, indices[:, None])[:, 0].numpy()

    def _draw(self, rows: np.ndarray) -> np.ndarray:
        """Return the next uniform number of each row."""
        uniform = np.empty(len(rows))
        steps = self._steps[rows]
        for step in np.unique(steps).tolist():
            if step not in self._uniform:
                # One stream per step, in the order of the prompts: later prompts do not change earlier ones.
                # Two threads may both draw it, and draw the same.
                stream = generator(self.seed, step)
                if self.first:
                    assert isinstance(stream.bit_generator, np.random.PCG64)
                    stream.bit_generator.advance(self.first)
                self._uniform[step] = stream.random(len(self._steps))
            now = steps == step
            uniform[now] = self._uniform[step][rows[now]]
        self._steps[rows] += 1
        return uniform
