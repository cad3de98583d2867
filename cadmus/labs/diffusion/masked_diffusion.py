"""Masked diffusion, the objective of a model with full attention: :mod:`cadmus.labs.diffusion.masking`."""

from dataclasses import replace

from torch import Tensor

from cadmus import config
from cadmus.labs.diffusion.masking import Noise, draw_noise, noised
from cadmus.labs.diffusion.settings import MaskedDiffusion as Settings
from cadmus.tools import generator
from cadmus.train.loader import Batch
from cadmus.train.objectives.next_token import NextToken
from cadmus.train.objectives.objective import Outputs
from cadmus.train.packing import Drawn, PackedBatch, Supervision, Tokens

WEIGHTS = "weights"
"""Column of a batch: float32, the weight of each target."""


class Masks(Supervision):
    """Masks tokens; the targets are these, and the number of tokens after the prompt."""

    def __init__(self, run: config.Config, seed: int) -> None:
        self._elsewhere, self._seed = Settings.below(run.train).elsewhere, seed

    def draw(self, drawn: Drawn) -> Drawn:
        lengths = drawn.programs.lengths
        rng = generator(self._seed, "noise", drawn.step)
        noise = draw_noise(rng, lengths, drawn.prompt_lengths, self._elsewhere)
        # The tokens of the canvas, and its length.
        targets = lengths - noise.prompts + 1
        return replace(
            drawn,
            prompt_lengths=noise.prompts,
            targets=targets,
            completion_targets=targets * noise.asked,
            columns={**drawn.columns, **noise._asdict()},
        )

    def annotate(self, tokens: Tokens) -> None:
        drawn = tokens.drawn
        noise = Noise(*(drawn.columns[name] for name in Noise._fields))
        tokens.token, tokens.target, weights = noised(tokens.token, drawn.programs.offsets, noise)
        # A prompt attends to itself alone: see GPT.visible.
        tokens.segment = 2 * tokens.program + (tokens.position >= noise.prompts[tokens.program])
        tokens.completing &= noise.asked[tokens.program]
        tokens.columns[WEIGHTS] = 0, weights


class MaskedDiffusion(NextToken):
    """Restores the masked tokens of programs, and predicts the lengths of completions.

    Its metrics are upper bounds of what they are in a causal model: the loss per token, and that of
    completions.
    """

    @classmethod
    def supervision(cls, run: config.Config, seed: int) -> Supervision:
        return Masks(run, seed)

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        losses = outputs.losses * packed.columns[WEIGHTS].flatten()
        total = losses.sum()
        self.sums[0] += total.detach()
        self.sums[1] += (losses * packed.completion_mask.flatten()).sum().detach()
        return total * (self.ranks / batch.targets)


OBJECTIVE = MaskedDiffusion
