"""The section of the lab curriculum."""

from typing import Any, Literal

from cadmus.config.fields import Count, Section


class Curriculum(Section):
    """The order of the training programs."""

    order: Literal["mixture", "staged", "random", "level", "solving"] = "mixture"
    """`mixture` draws from all; in the first half of the steps `staged` adds template after template,
    `random` does so in a random order, and `level` adds harder programs of each; `solving` draws most from
    templates that the model solves half of the time"""
    seed: Count = 0
    """seed of the order `random`"""

    def is_used(self) -> bool:
        return self.order != "mixture"

    def check(self, run: Any) -> None:
        place = "train.curriculum"
        if self.seed and self.order != "random":
            raise ValueError(f"{place}.seed: needs order random, got {self.order}")
        if self.order == "solving" and run.model.attention != "causal":
            raise ValueError(f"{place}.order: solving needs model.attention causal")


TRAIN = {"curriculum": Curriculum}
OBJECTIVES = {"curriculum": lambda run: Curriculum.below(run.train).is_used()}
