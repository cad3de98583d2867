"""The sections of the lab numbers."""

from typing import Annotated, Any

from pydantic import Field

from cadmus.config.fields import Fraction, NonNegative, Section

INTERCHANGED = ("second", "difference")
"""Labels whose directions interchange training keeps."""


class LabelOnly(Section):
    """Pairs of five-instruction expressions that only state supervision learns from.

    No token of them is predicted. So a model gets to know numbers that it never compares.
    """

    fraction: Annotated[Fraction, Field(lt=1)] = 0.0
    """fraction of the batch; 0 for none"""
    close: Fraction = 0.0
    """fraction of the pairs whose numbers differ by at most 3, which few others do: small differences tell
    numbers that are equal"""

    def is_used(self) -> bool:
        return self.fraction > 0

    def check(self, run: Any) -> None:
        if not self.fraction:
            return
        section, batch_size = "train.label_only.fraction", run.train.batch_size
        if run.model.attention != "causal":
            raise ValueError(f"{section}: needs model.attention causal, got {self.fraction}")
        if not run.train.state_weight:
            raise ValueError(f"{section}: needs a state_weight above 0; nothing else learns from them")
        if self.count(batch_size) == batch_size:
            raise ValueError(f"{section}: leaves no other program of {batch_size}; lower it")

    def count(self, batch_size: int) -> int:
        """Return how many programs of a batch are label-only."""
        return round(self.fraction * batch_size)


class InterchangeTraining(Section):
    """Interchange intervention training: answers shall depend on a state by what its labels read alone.

    Before a comparator, all in the state but what `second` and `difference` read is exchanged with that of
    another program, and the answer stays the same.
    """

    fraction: Fraction = 0.0
    """fraction of the states that are exchanged; 0 trains without"""
    shift: NonNegative = 60.0
    """in half of the states, both numbers of a comparison are moved together, by at most this"""

    def is_used(self) -> bool:
        return self.fraction > 0

    def check(self, run: Any) -> None:
        if not self.fraction:
            return
        section, train = "train.interchange_training", run.train
        if run.model.attention != "causal":
            raise ValueError(f"{section}.fraction: needs model.attention causal, got {self.fraction}")
        for name in INTERCHANGED:
            if not (train.state_weight and getattr(train.state_labels, name)):
                problem = f"needs state_labels.{name} and state_weight above 0"
                raise ValueError(f"{section}.fraction: {problem}")


TRAIN: dict[str, type[Section]] = {"label_only": LabelOnly, "interchange_training": InterchangeTraining}
OBJECTIVES = {
    "label_only": lambda run: LabelOnly.below(run.train).fraction > 0,
    "interchange_training": lambda run: InterchangeTraining.below(run.train).fraction > 0,
}
