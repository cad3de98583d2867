"""The section of the lab curriculum."""

from typing import Any, Literal

from cadmus.config.fields import Section


class Curriculum(Section):
    """The order of the training programs."""

    order: Literal["mixture", "staged", "level", "solving"] = "mixture"
    """`mixture` draws from all; in the first half of the steps `staged` adds template after template, and
    `level` adds harder programs of each; `solving` draws most from templates that the model solves half
    of the time"""

    def is_used(self) -> bool:
        return self.order != "mixture"

    def check(self, run: Any) -> None:
        section = "train.curriculum"
        if self.order == "solving" and run.model.attention != "causal":
            raise ValueError(f"{section}.order: solving needs model.attention causal")


TRAIN = {"curriculum": Curriculum}
OBJECTIVES = {"curriculum": lambda run: Curriculum.below(run.train).is_used()}
