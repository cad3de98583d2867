"""The ``dataset`` section: the splits and, in ``dataset.templates``, the programs of each sub-problem."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from cadmus import isa
from cadmus.config.fields import (
    Above0,
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
    within,
)

SPLITS = ("train", "validation", "test")
"""Splits of every dataset; a program's hash decides which one it belongs to."""
OOD = "ood"
"""Split of the programs that the rules of ``dataset.ood`` exclude; absent without rules."""
MOST_SHARDS = 1_000
"""Maximum number of shards per template and split; each is one workflow job."""
MOST_PROGRAMS = 8_000_000
"""Maximum number of programs in a shard, whose string column holds less than 2 GiB."""
OPERATORS = "".join(row.symbol for row in isa.INSTRUCTIONS if row.group == "arithmetic")
"""Arithmetic instructions: they replace two numbers with one."""
LONGEST_PROGRAM = 250
"""Upper limit of ``dataset.max_length``; shards store the prompt length in one byte."""
Lengths = Annotated[list[Literal[1, 3, 5, 7]], Field(min_length=1)]


class Template(Section):
    """Fields of every template."""

    train: Count = 0
    """programs in the training set"""
    repeats: bool = False
    """keep programs that are drawn again, so that short ones stay as frequent as they are drawn; otherwise
    they are dropped as long as an eighth of those drawn are new"""

    def is_used(self) -> bool:
        return self.train > 0


class ExpressionTemplate(Template):
    """Two number expressions and a comparator, such as `62*4+54*4-=` or `83-2*45+1->`."""

    expression_lengths: Lengths = [5]
    """possible lengths of an expression, in instructions"""
    length_weights: list[Above0] | None = None
    """sampling weight of each of `expression_lengths`; uniform when null"""
    operators: str = OPERATORS
    """operators in the expressions"""

    @field_validator("operators")
    @classmethod
    def _in_order(cls, operators: str) -> str:
        if not operators or not set(operators) <= set(OPERATORS):
            raise ValueError(f"must be some of {OPERATORS}, got {operators!r}")
        # The same operators in another order give the same dataset.
        return "".join(operator for operator in OPERATORS if operator in operators)

    @model_validator(mode="after")
    def _check_lengths(self) -> "ExpressionTemplate":
        lengths, weights = self.expression_lengths, self.length_weights
        if len(set(lengths)) < len(lengths):
            raise ValueError(f"expression_lengths: duplicate length in {lengths}; use length_weights")
        if weights is not None and len(weights) != len(lengths):
            rule = f"must have one weight per length in {lengths}"
            raise ValueError(f"length_weights: {rule}, got {len(weights)} weights")
        return self


class BasicMath(ExpressionTemplate):
    """An expression compared with a digit: `12+0>`."""

    expression_lengths: Lengths = [3, 5]
    """possible lengths of an expression, in instructions"""


class Subroutines(Template):
    """Subroutine calls compared with an expression."""


class Random(Template):
    """Uniformly random instructions, filtered for true programs."""

    length: Annotated[Interval, within(1, LONGEST_PROGRAM)] = [4, 16]
    """range of the program length, in instructions"""


class SequenceTemplate(Template):
    """Programs that build sequences."""

    sequence_length: Annotated[Interval, within(1, 9)] = [1, 4]
    """range of the sequence length, in elements"""


class CompleteAlgorithm(SequenceTemplate):
    """Examples of a function, then its definition."""

    examples: Annotated[Interval, within(1, 8)] = [1, 8]
    """range of the number of examples per program"""


class Templates(Section):
    """The sub-problems in the order of the paper's Table 3, then others.

    The template `NAME` is implemented in `cadmus/templates/NAME.py`.
    """

    basic_math: BasicMath = BasicMath()
    equality: ExpressionTemplate = ExpressionTemplate()
    less_greater: ExpressionTemplate = ExpressionTemplate()
    subroutines: Subroutines = Subroutines()
    random: Random = Random()
    basic_sequences: SequenceTemplate = SequenceTemplate()
    advanced_sequences: SequenceTemplate = SequenceTemplate()
    apply_labels: SequenceTemplate = SequenceTemplate()
    complete_algorithm: CompleteAlgorithm = CompleteAlgorithm()


TEMPLATES = tuple(Templates.model_fields)
"""Names of the templates."""
OF_THE_PAPER = TEMPLATES[:9]
"""The templates of the first version."""
FIRST_FIELDS = {
    *("templates", *OF_THE_PAPER, "values", "low", "high", "uniform_fraction"),
    *("max_length", "shard_size", "validation", "test", "eval_fraction"),
    *("train", "repeats", "expression_lengths", "length_weights", "operators"),
    *("length", "sequence_length", "examples", "compared", "contains", "functions"),
}
"""Fields of the first version, which count in the digest of each dataset, with their default as well."""

TEMPLATE_OF = {
    **{name: name for name in TEMPLATES},
    "equality_comparator": "equality",
    "subroutines_definition": "subroutines",
}
"""The template of each question; :mod:`cadmus.evaluate.questions` defines the questions."""

COMPARING = ("basic_math", "equality", "less_greater", "subroutines")
"""Templates whose programs compare two numbers, x and y."""
TemplateName = Annotated[str, known(TEMPLATES, "template")]


class Values(Range):
    """The numbers that basic_math, equality, less_greater and subroutines compare."""

    low: Value = -20
    """smallest compared value"""
    high: Value = 20
    """largest compared value"""
    uniform_fraction: Annotated[Fraction, Field(serialization_alias="uniform_share")] = 0.5
    """fraction of the numbers drawn uniformly over the values; the others are drawn uniformly over the
    expressions; both before deduplication, which removes many programs where a value has few"""


CONDITIONS = ("values", "length", "prompt_length", "contains", "functions")
"""Fields of an OOD rule; one of them decides what it matches."""


class OODRule(Section):
    """A rule excludes programs from train, validation and test; the ood split is sampled from them.

    `dataset.ood` maps names to rules. Each rule has one of `values`, `length`, `prompt_length`, `contains`
    and `functions`; a program is excluded if any rule matches. `evaluate.split: ood` measures Table 3 on the
    excluded programs:

    ```yaml
    dataset:
      ood:
        sevens: {values: [7, [13, 15]], compared: either}
        long: {length: [40, 63], templates: [complete_algorithm]}
        product_then_minus: {contains: ["*-"], templates: [equality, less_greater]}
        unseen: {functions: 0.1}
    evaluate: {split: ood}
    ```
    """

    values: Annotated[list[int | list[int]] | None, Field(min_length=1)] = None
    """numbers and intervals [low, high] of the compared values x and y that match"""
    compared: Literal["either", "both"] = "either"
    """match if either or both of x and y are among `values`"""
    length: Interval | None = None
    """range of matching program lengths, in instructions"""
    prompt_length: Interval | None = None
    """range of matching prompt lengths, in instructions"""
    contains: Annotated[list[str] | None, Field(min_length=1)] = None
    """instructions, or pieces such as `*-`; a program that contains any of them matches"""
    functions: Annotated[Number, Field(gt=0, lt=1)] | None = None
    """fraction of all functions; a program that defines one of them matches. What a function computes, not
    its text, decides whether it is one of them"""
    templates: Annotated[list[TemplateName] | None, Field(min_length=1)] = None
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
        if sum(getattr(self, condition) is not None for condition in CONDITIONS) != 1:
            raise ValueError(f"a rule has exactly one of {', '.join(CONDITIONS[:-1])} and {CONDITIONS[-1]}")
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
    shard_size: Annotated[Positive, Field(le=MOST_PROGRAMS)] = 250_000
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

    def unused(self) -> Collection[str]:
        return () if self.ood else ("ood_programs",)

    @property
    def splits(self) -> tuple[str, ...]:
        return (*SPLITS, OOD) if self.ood else SPLITS

    def rules_for(self, template: str) -> dict[str, OODRule]:
        """Return the OOD rules of a template, by name."""
        return {name: rule for name, rule in self.ood.items() if template in (rule.templates or TEMPLATES)}
