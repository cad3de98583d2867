"""The sections of the objectives of the core, below ``train``."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from cadmus.config.dataset import TEMPLATE_OF
from cadmus.config.fields import (
    Above0,
    Distinct,
    Fraction,
    NonNegative,
    Positive,
    ProgramCount,
    SampleCount,
    Section,
    known,
)

Question = Annotated[str, known(TEMPLATE_OF, "question")]


class StateLabels(Section):
    """Weights of what state supervision predicts; 0 leaves a label out."""

    top: NonNegative = 1.0
    """value on top of the stack"""
    top_number: NonNegative = 0.0
    """the number on top, by regression; `top` is a class"""
    second: NonNegative = 0.0
    """the number below the one on top, by regression"""
    difference: NonNegative = 0.0
    """the second number minus the one on top, by regression"""
    uncompared: bool = False
    """label also the difference of numbers that are never compared, as both are outside `dataset.values` or a
    rule excludes the pair"""

    @model_validator(mode="after")
    def _check(self) -> "StateLabels":
        if not self.top and not self.numbers():
            raise ValueError("all weights are 0; set state_weight 0 to train without state supervision")
        return self

    def numbers(self) -> dict[str, float]:
        """Return the labels that are numbers and not left out, with their weights."""
        names = ("top_number", "second", "difference")
        return {name: weight for name in names if (weight := getattr(self, name))}


class Reinforcement(Section):
    """Reinforcement learning: the model learns from completions that it samples and that are graded."""

    fraction: Fraction = 0.0
    """fraction of the steps, at the end, that also train on graded completions; 0 for none"""
    questions: Distinct[Question] = [
        "equality",
        "subroutines_definition",
        "complete_algorithm",
    ]
    """questions that training programs are asked, without those of templates that have none; *random* is none
    by default, as little of its reward needs execution"""
    prompts: ProgramCount = 32
    """prompts per question and step, over all ranks"""
    samples: Annotated[SampleCount, Field(ge=2)] = 8
    """completions per prompt"""
    batch_size: Positive | None = None
    """programs that such a step trains on besides, over all ranks; as many as other steps when null"""
    function: Annotated[str, Field(pattern=r"^.+\.py:\w+$", max_length=1_000)] | None = None
    """`FILE.py:NAME`, a Python function that [rewards](../docs/training.md#a-reward-of-your-own) completions;
    when null, those that solve their question are rewarded"""
    weight: Annotated[Above0, Field(le=1_000)] = 1.0
    """loss weight of the completions, relative to the programs of the batch"""

    def is_used(self) -> bool:
        return self.fraction > 0

    def asked(self, run: Any) -> list[str]:
        """Return the questions whose template has training programs."""
        return [name for name in self.questions if getattr(run.dataset.templates, TEMPLATE_OF[name]).train]

    def check(self, run: Any) -> None:
        if self.fraction and not self.asked(run):
            problem = "no template of these questions has train programs"
            raise ValueError(f"train.reinforcement.questions: {problem}; name others, or set fraction 0")
        if self.fraction and run.model.attention != "causal":
            raise ValueError(
                f"train.reinforcement.fraction: needs model.attention causal, got {self.fraction}"
            )
