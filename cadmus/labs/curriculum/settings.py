"""The section of the lab curriculum."""

from typing import Literal

from cadmus.config.fields import Section


class Curriculum(Section):
    """The order of the training programs."""

    order: Literal["mixture", "staged", "level"] = "mixture"
    """`mixture` draws from all; in the first half of the steps `staged` adds template after template, and
    `level` adds harder programs of each"""

    def is_used(self) -> bool:
        return self.order != "mixture"


TRAIN = {"curriculum": Curriculum}
OBJECTIVES = {"curriculum": lambda run: Curriculum.below(run.train).is_used()}
