"""The ``dataset`` section."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from cadmus import isa
from cadmus.config.fields import (
    Count,
    Fraction,
    Interval,
    Number,
    PlainText,
    Positive,
    Range,
    Section,
    Value,
    check_order,
    known,
)
from cadmus.config.templates import LONGEST_PROGRAM, TEMPLATES, Templates

SPLITS = ("train", "validation", "test")
"""Splits of every dataset; a program's hash decides which one it belongs to."""

OOD = "ood"
"""Split of the programs that the rules of ``dataset.ood`` exclude; absent without rules."""

MOST_SHARDS = 1_000
"""Maximum number of shards per template and split; each is one workflow job."""

COMPARING = [name for name in TEMPLATES if Templates.model_fields[name].default.compares]
"""Templates whose programs compare two numbers."""
Template = Annotated[str, known(TEMPLATES, "template")]


class Values(Range):
    """The numbers that basic_math, equality, less_greater and subroutines compare."""

    low: Value = -20
    """smallest compared value"""
    high: Value = 20
    """largest compared value"""
    uniform_fraction: Annotated[Fraction, Field(serialization_alias="uniform_share")] = 0.5
    """fraction of the numbers drawn uniformly over the values; the others are drawn uniformly over the
    expressions; both before deduplication, which removes many programs where a value has few"""


class OODRule(Section):
    """A rule excludes programs from train, validation and test; the ood split is sampled from them.

    `dataset.ood` maps names to rules. Each rule has one of `values`, `length` and `contains`; a program is
    excluded if any rule matches. `evaluate.split: ood` measures Table 3 on the excluded programs:

    ```yaml
    dataset:
      ood:
        sevens: {values: [7, [13, 15]], compared: either}
        long: {length: [40, 63], templates: [complete_algorithm]}
        product_then_minus: {contains: ["*-"], templates: [equality, less_greater]}
    evaluate: {split: ood}
    ```
    """

    values: Annotated[list[int | list[int]] | None, Field(min_length=1)] = None
    """numbers and intervals [low, high] of the compared values x and y that match"""
    compared: Literal["either", "both"] = "either"
    """match if either or both of x and y are among `values`"""
    length: Annotated[Interval, AfterValidator(check_order)] | None = None
    """range of matching program lengths, in instructions"""
    contains: Annotated[list[str] | None, Field(min_length=1)] = None
    """instructions, or pieces such as `*-`; a program that contains any of them matches"""
    templates: Annotated[list[Template] | None, Field(min_length=1)] = None
    """templates the rule applies to; all when null"""

    @field_validator("values", mode="before")
    @classmethod
    def _check_values(cls, values: Any) -> Any:
        for value in values if isinstance(values, list) else []:
            bounds = value if isinstance(value, list) else [value]
            if len(bounds) not in (1, 2) or not all(type(bound) is int for bound in bounds):
                raise ValueError(f"must be integers or intervals [low, high], got {value!r}")
            check_order([bounds[0], bounds[-1]])
        return values

    @field_validator("contains")
    @classmethod
    def _check_contains(cls, pieces: list[str] | None) -> list[str] | None:
        for piece in pieces or []:
            if not piece or set(piece) - (set(isa.BY_SYMBOL) - {isa.END}):
                raise ValueError(f"must be instructions (see `cadmus isa`), got {piece!r}")
        return pieces

    @model_validator(mode="after")
    def _check(self) -> "OODRule":
        if sum(given is not None for given in (self.values, self.length, self.contains)) != 1:
            raise ValueError("a rule has exactly one of values, length and contains")
        if self.compared == "both" and self.values is None:
            raise ValueError("compared: needs values; remove it")
        for template in self.templates or []:
            if self.values is not None and template not in COMPARING:
                fix = f"use {', '.join(COMPARING)}"
                raise ValueError(f"templates: {template} does not compare numbers; {fix}")
        return self


class Dataset(Section):
    """The sampled programs and their splits."""

    values: Values = Values()
    max_length: Annotated[Positive, Field(le=LONGEST_PROGRAM)] = 63
    """maximum program length, in instructions, without the end token"""
    # A string column of a shard holds less than 2 GiB.
    shard_size: Annotated[Positive, Field(le=8_000_000)] = 250_000
    """maximum number of programs per shard"""
    validation: Count = 2_000
    """validation programs per template"""
    test: Count = 2_000
    """test programs per template"""
    eval_fraction: Annotated[Number, Field(gt=0, lt=0.5, serialization_alias="held_out_share")] = 0.05
    """fraction of all possible programs reserved for validation, and the same again for test; assigned by
    the program's hash"""
    ood: dict[PlainText, OODRule] = {}
    """rules, by name, that exclude programs from train, validation and test"""
    ood_programs: Count = 2_000
    """programs per template in the ood split"""
    templates: Templates = Templates()

    @model_validator(mode="after")
    def _check(self) -> "Dataset":
        most = max(self.validation, self.test, *(getattr(self.templates, name).train for name in TEMPLATES))
        if most > MOST_SHARDS * self.shard_size:
            problem = f"{self.shard_size} splits {most} programs into more than {MOST_SHARDS} shards"
            raise ValueError(f"shard_size: {problem}; set at least {-(-most // MOST_SHARDS)}")
        return self

    @property
    def splits(self) -> tuple[str, ...]:
        return (*SPLITS, OOD) if self.ood else SPLITS

    def rules_for(self, template: str) -> dict[str, OODRule]:
        """Return the OOD rules of a template, by name."""
        return {name: rule for name, rule in self.ood.items() if template in (rule.templates or TEMPLATES)}
