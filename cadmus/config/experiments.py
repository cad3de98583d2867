"""The ``evaluate`` and ``llm`` sections."""

import itertools
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cadmus.config.fields import Above0, NonNegative, Positive, Section, Value, check_order

Programs = Annotated[Positive, Field(le=1_000_000)]
Tokens = Annotated[Positive, Field(le=1_000_000)]


class Grid(Section):
    """The comparison grid over all pairs of values (x, y)."""

    low: Value = -60
    """smallest value of x and y"""
    high: Value = 60
    """largest value of x and y"""
    programs_per_pixel: Annotated[Positive, Field(le=10_000)] = 10
    """test programs per pair (x, y)"""

    @model_validator(mode="after")
    def _check(self) -> "Grid":
        check_order([self.low, self.high])
        return self


class Probe(Section):
    """Logistic regression probes for the two compared values."""

    train_programs: Programs = 20_000
    """programs to fit the probes"""
    validation_programs: Programs = 2_000
    """programs to choose the regularization"""
    test_programs: Programs = 2_000
    """programs to score the probes"""
    inverse_regularisation: Annotated[list[Above0], Field(min_length=1, max_length=8)] = [0.1, 1.0, 10.0]
    """candidates, ascending: C of scikit-learn's LogisticRegression"""

    @field_validator("inverse_regularisation")
    @classmethod
    def _ascending(cls, values: list[float]) -> list[float]:
        if any(a >= b for a, b in itertools.pairwise(values)):
            raise ValueError(f"must be ascending, got {values}")
        return values


class Evaluate(Section):
    """Experiments with the trained model."""

    split: Literal["validation", "test", "ood"] = "test"
    """split that Table 3 is measured on"""
    programs: Positive = 2_000
    """maximum number of programs per template"""
    snapshot_programs: Positive = 500
    """maximum number of programs per template and snapshot"""
    batch_size: Positive = 512
    """programs completed at a time"""
    grid: Grid = Grid()
    probe: Probe = Probe()
    lens_programs: Programs = 2_000
    """comparisons for the logit lens"""
    patch_programs: Programs = 2_000
    """pairs of comparisons for activation patching"""


class Llm(Section):
    """Large language models on programs of the comparison grid, in the training range.

    Requests are sent only if `models` names a model and OPENAI_API_KEY is set; see docs/llm.md.
    """

    models: list[str] = []
    """names of models in config/tables/llms.yaml"""
    symbols: Annotated[list[Literal["normal", "alternate"]], Field(min_length=1)] = ["normal", "alternate"]
    """symbol sets of the programs"""
    max_output_tokens: Annotated[list[Tokens], Field(min_length=1)] = [256, 512, 1024, 2048, 4096, 8192]
    """output token limits, including reasoning; one point of the figure each"""
    programs_per_pair: Positive = 1
    """programs per pair of values"""
    grid_max_output_tokens: Tokens = 2048
    """output token limit in the comparison grid"""
    grid_programs_per_pair: Positive = 1
    """programs per pair of values in the comparison grid"""
    max_cost_usd: NonNegative = 5.0
    """cost limit of the run in USD; requests that could exceed it are not sent"""
    concurrency: Annotated[Positive, Field(le=1_000)] = 32
    """concurrent requests; does not apply to batches"""
    requests_per_minute: Above0 | None = None
    """rate limit; none when null; does not apply to batches"""

    @model_validator(mode="after")
    def _check(self) -> "Llm":
        for field in ("models", "symbols", "max_output_tokens"):
            given = getattr(self, field)
            twice = next((value for value in given if given.count(value) > 1), None)
            if twice is not None:
                raise ValueError(f"{field}: duplicate {twice!r}")
        return self
