"""The settings of the lab law."""

from typing import TYPE_CHECKING

from cadmus.config.fields import Above0, Section
from cadmus.plugins import StudyPart

if TYPE_CHECKING:
    from cadmus.config.study import Study

VARIANTS = 6
"""A scaling law has five coefficients."""


def check(study: "Study") -> None:
    """Check that a study has what a law is fitted to."""
    # It reads the settings of the labs, this module among them.
    from cadmus.config.study import LOSSES

    variants = len(study.variants)
    if variants < VARIANTS or not set(LOSSES) & set(study.compare):
        needed = f"{VARIANTS} variants, got {variants}, and one of {', '.join(LOSSES)} in compare"
        raise ValueError(f"law_flops: a law needs {needed}")


class Fields(Section):
    """Fields of the section ``study``."""

    law_flops: list[Above0] = []
    """FLOPs at which a scaling law, fitted to the loss by parameters and programs, gives the optimal size; no
    law is fitted without any"""


STUDY = Fields.model_fields
STUDY_PARTS = {"law": StudyPart("law_flops", check, "part")}
