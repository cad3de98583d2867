"""The section of the lab diffusion."""

from typing import Any

from cadmus.config.fields import Fraction, Section
from cadmus.isa import VOCABULARY_SIZE


class MaskedDiffusion(Section):
    """Masked diffusion, the objective of a model with full attention."""

    elsewhere: Fraction = 0.1
    """fraction of the programs whose prompt does not end where its question says"""

    def check(self, run: Any) -> None:
        if run.model.attention == "full" and run.dataset.max_length >= VOCABULARY_SIZE:
            rule = f"must be below {VOCABULARY_SIZE} with model.attention full, where a token is a length"
            raise ValueError(f"dataset.max_length: {rule}, got {run.dataset.max_length}")


TRAIN = {"masked_diffusion": MaskedDiffusion}
OBJECTIVES = {"masked_diffusion": lambda run: run.model.attention == "full"}
DECODERS = {"full": "decoding"}
