"""The ``dataset.templates`` section: how many programs each sub-problem has, and their shape."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from cadmus import isa
from cadmus.config.fields import Above0, Count, Interval, Section, within

OPERATORS = "".join(row.symbol for row in isa.INSTRUCTIONS if row.group == "arithmetic")
"""Arithmetic instructions: they replace two numbers with one."""

LONGEST_PROGRAM = 250
"""Upper limit of ``dataset.max_length``; shards store the prompt length in one byte."""

Lengths = Annotated[list[Literal[1, 3, 5, 7]], Field(min_length=1)]


class Template(Section):
    """Fields of every template."""

    compares: ClassVar[bool] = False
    """True if the programs compare two numbers, x and y."""

    train: Count = 0
    """programs in the training set"""
    repeats: bool = False
    """keep programs that are drawn again, so that short ones stay as frequent as they are drawn; otherwise
    they are dropped as long as an eighth of those drawn are new"""


class ExpressionTemplate(Template):
    """Two number expressions and a comparator, such as `62*4+54*4-=` or `83-2*45+1->`."""

    compares: ClassVar[bool] = True

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
            wanted = f"must have one weight per length in {lengths}"
            raise ValueError(f"length_weights: {wanted}, got {len(weights)} weights")
        return self


class BasicMath(ExpressionTemplate):
    """An expression compared with a digit: `12+0>`."""

    expression_lengths: Lengths = [3, 5]
    """possible lengths of an expression, in instructions"""


class Subroutines(Template):
    """Subroutine calls compared with an expression."""

    compares: ClassVar[bool] = True


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

    examples: Annotated[Interval, within(1, 6)] = [3, 5]
    """range of the number of examples per program"""


class Templates(Section):
    """The sub-problems, in the order of the paper's Table 3.

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

TEMPLATE_OF = {
    **{name: name for name in TEMPLATES},
    "equality_comparator": "equality",
    "subroutines_definition": "subroutines",
}
"""The template of each question; :mod:`cadmus.evaluate.questions` defines the questions."""
