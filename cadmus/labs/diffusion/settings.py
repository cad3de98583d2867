"""The sections of the lab diffusion."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from cadmus.config.evaluation import Settings
from cadmus.config.fields import Distinct, Fraction, Positive, ProgramCount, Section
from cadmus.isa import VOCABULARY_SIZE


class MaskedDiffusion(Section):
    """Masked diffusion, the objective of a model with full attention."""

    elsewhere: Fraction = 0.1
    """fraction of the programs whose prompt does not end where its question says"""

    def check(self, run: Any) -> None:
        if run.model.attention == "full" and run.dataset.max_length >= VOCABULARY_SIZE:
            rule = f"must be below {VOCABULARY_SIZE} with model.attention full, where a token is a length"
            raise ValueError(f"dataset.max_length: {rule}, got {run.dataset.max_length}")


class Infilling(Settings):
    """Holes in true programs."""

    programs: ProgramCount = 500
    """maximum number of programs per template"""
    holes: Distinct[Annotated[Positive, Field(le=16)]] = [1, 2, 4, 8]
    """instructions of a hole"""

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        return [f"filled@{hole}" for hole in self.holes]


TRAIN = {"masked_diffusion": MaskedDiffusion}
OBJECTIVES = {"masked_diffusion": lambda run: run.model.attention == "full"}
DECODERS = {"full": "decoding"}
EXPERIMENTS = {"infilling": Infilling}
