"""The decoder of masked diffusion: completions and exact likelihoods.

A canvas follows the prompt: masks, as many as the completion shall have tokens, which the last token of the
prompt predicts. Each step replaces the one whose token is most certain, until none is left. A prompt does
not attend to its canvas, so it is computed once, for all steps and samples.

A canvas has neither ends nor padding. Models that write these choose them first, as they are most confident
of them (LLaDA #137, Dream #51).

Shape suffixes: R rows, C tokens of the longest canvas, V vocabulary.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cadmus import isa
from cadmus.model.decoding import Choose, Completions
from cadmus.model.gpt import MASK_ID, Cache, last
from cadmus.programs import BYTE_OF_TOKEN, Programs, offsets_of

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

NOTHING = -1
"""Token after the end of a canvas."""
IMPOSSIBLE = -1e9
"""Logit of a completion that would be too long."""
Fill = Callable[[Tensor, np.ndarray, np.ndarray], np.ndarray]
"""Maps logits (n, V), their rows and their positions on the canvas, both int64 of shape (n,), to tokens, also
int64 of shape (n,)."""


class Unmasking:
    """A decoder that replaces masks on a canvas after the prompt."""

    @torch.inference_mode()
    def complete(self, model: "Cadmus", prompts: Programs, limits: np.ndarray, choose: Choose) -> Completions:
        lengths = np.empty(len(prompts), np.int64)

        def predict(rows: np.ndarray) -> None:
            logits = model.prompt_logits(prompts.take(rows))
            longest = torch.from_numpy(limits[rows] - prompts.lengths[rows])[:, None].to(logits.device)
            too_long = torch.arange(isa.VOCABULARY_SIZE, device=logits.device) > longest
            lengths[rows] = choose(logits.masked_fill(too_long, IMPOSSIBLE), rows)

        model.in_batches(predict, prompts.lengths)
        filled_RC = fill(model, prompts, lengths, lambda logits, rows, _: choose(logits, rows))
        return programs_of(filled_RC), np.ones(len(prompts), np.bool_)

    def next_logits(self, model: "Cadmus", prompts: Programs) -> Tensor:
        """Return the logits of completions of one token."""
        _, cache = model.start(prompts)
        ones = np.ones(len(prompts), np.int64)
        return canvas_logits(model, canvases_of(ones), prompts.lengths, ones, cache)[:, 0]

    @torch.inference_mode()
    def log_likelihoods(
        self, model: "Cadmus", programs: Programs, prompt_length: np.ndarray, bar: bool = False
    ) -> np.ndarray:
        """Return the log-probabilities that sampling gives the completions of programs.

        They are exact: of the length, and of each token when its turn comes, from the left to the right.
        Other orders give other ones.
        """
        prompts, completions = programs.prefixes(prompt_length), programs.suffixes(prompt_length)
        truth_RC, total = completions.to_tokens(), np.zeros(len(programs))

        def add(logits: Tensor, rows: np.ndarray, tokens: np.ndarray) -> None:
            log_probabilities = logits.double().log_softmax(-1)[np.arange(len(rows)), tokens]
            total[rows] += log_probabilities.numpy()

        def predict(rows: np.ndarray) -> None:
            add(model.prompt_logits(prompts.take(rows)).cpu(), rows, completions.lengths[rows])

        def restore(logits: Tensor, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
            add(logits, rows, truth_RC[rows, positions])
            return truth_RC[rows, positions]

        model.in_batches(predict, prompts.lengths)
        fill(model, prompts, completions.lengths, restore, left=True)
        return total


decoder = Unmasking
"""That of models with full attention."""


def canvases_of(lengths: np.ndarray) -> np.ndarray:
    """Return canvases of masks alone."""
    inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    return np.where(inside, MASK_ID, NOTHING)


def programs_of(tokens_RC: np.ndarray) -> Programs:
    """Return what is on canvases without masks."""
    inside = tokens_RC != NOTHING
    return Programs(BYTE_OF_TOKEN[tokens_RC[inside]], offsets_of(inside.sum(1)))


def fill(
    model: "Cadmus", prompts: Programs, canvas_lengths: np.ndarray, choose: Fill, left: bool = False
) -> np.ndarray:
    """Return canvases of some lengths, int64 of shape (n,), with the masks replaced, the most certain first.

    Each follows its prompt. With ``left``, the leftmost mask is first.
    """
    tokens_RC = canvases_of(canvas_lengths)

    def compute(rows: np.ndarray) -> None:
        rows = rows[np.argsort(prompts.lengths[rows], kind="stable")]
        lengths = prompts.lengths[rows]
        _, cache = model.start(prompts.take(rows))
        longest = int(canvas_lengths[rows].max())
        canvas_RC = tokens_RC[rows, :longest]
        while (masked_RC := canvas_RC == MASK_ID).any():
            live = np.flatnonzero(masked_RC.any(1))
            if len(live) < len(rows):
                rows, canvas_RC, masked_RC, lengths = (x[live] for x in (rows, canvas_RC, masked_RC, lengths))
                cache.keep(torch.from_numpy(live).to(model.device), int(lengths.max()) + longest)
            logits_RCV = canvas_logits(model, canvas_RC, lengths, canvas_lengths[rows], cache)
            certain_RC = logits_RCV.softmax(-1).max(-1).values.numpy()
            at = (masked_RC if left else np.where(masked_RC, certain_RC, -1)).argmax(1)
            every = np.arange(len(rows))
            tokens_RC[rows, at] = canvas_RC[every, at] = choose(logits_RCV[every, at], rows, at)

    model.in_batches(compute, prompts.lengths + canvas_lengths)
    return tokens_RC


def canvas_logits(
    model: "Cadmus", canvas_RC: np.ndarray, prompt_lengths: np.ndarray, lengths: np.ndarray, cache: Cache
) -> Tensor:
    """Return the logits of each token of canvases after prompts in the cache, (R, C, V), on the CPU."""
    start_R1, end_R1 = (
        torch.from_numpy(x)[:, None].to(model.device) for x in (prompt_lengths, prompt_lengths + lengths)
    )
    tokens_RC = torch.from_numpy(np.maximum(canvas_RC, 0)).to(model.device)
    positions_RC = start_R1 + torch.arange(canvas_RC.shape[1], device=model.device)
    keys_S = torch.arange(int((prompt_lengths + canvas_RC.shape[1]).max()), device=model.device)
    visible_RCS = (keys_S < end_R1)[:, None].expand(-1, canvas_RC.shape[1], -1)
    x_RCD = last(model.model.residual_stream(tokens_RC, positions_RC, visible_RCS, cache))
    return model.model.logits(x_RCD).cpu()
