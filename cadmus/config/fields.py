"""Field types and the base class of the config's sections."""

import re
import reprlib
from collections.abc import Collection
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cadmus.errors import suggest

Item = TypeVar("Item")


class Checked(BaseModel):
    """A mapping without infinite numbers, NaN and integers of more than 64 bits."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_integers(self) -> Self:
        for name, value in self:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, int) and not -(2**63) <= item < 2**63:
                    raise ValueError(f"{name}: must have at most 64 bits, got {reprlib.repr(item)}")
        return self


class Section(Checked):
    """A mapping with known keys; the docstring below a field is its documentation."""

    model_config = ConfigDict(extra="forbid", validate_default=True, use_attribute_docstrings=True)

    @classmethod
    def below(cls, parent: "Section") -> Self:
        """Return the section of this class in its parent, whose declaration does not have those of labs."""
        return next(value for _, value in parent if type(value) is cls)

    def is_used(self) -> bool:
        """Tell whether anything depends on the section."""
        return True

    def check(self, run: Any) -> None:
        """Raise ValueError, with the path of a field, if the section does not fit the rest of the config."""

    def unused(self) -> Collection[str]:
        """Return the fields on which nothing depends, because of the values of others."""
        return ()


def what_counts(section: Section, always: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a section on which a step that reads it depends, as nested mappings.

    These are those that are used and do not have their default, and those that ``always`` names. So
    datasets, checkpoints, finished steps and studies stay valid when Cadmus gets another field, template or
    objective. Renamed fields have their first name, the serialization alias.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Section):
            return what_counts(value, always)
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value

    counted, unused = {}, section.unused()
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        is_used = name not in unused and not (isinstance(value, Section) and not value.is_used())
        differs = field.is_required() or value != field.default
        if name in always or (differs and is_used):
            counted[field.serialization_alias or name] = plain(value)
    return counted


def whole_number(value: Any) -> Any:
    """Convert another form: ``2e3``, which YAML reads as text, or ``"20"`` of Snakemake's ``--config``."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    number = _number(value)
    is_exact = isinstance(number, float) and number.is_integer() and abs(number) < 2**53
    return int(number) if is_exact else value


def _number(value: Any) -> Any:
    """Convert text from a command line, or ``1e-3``, which YAML reads as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def check_order(interval: list[int]) -> list[int]:
    """Return ``[low, high]`` if low is not above high."""
    if interval[0] > interval[1]:
        raise ValueError(f"low {interval[0]} is above high {interval[1]}")
    return interval


def check_distinct(values: list[Any]) -> list[Any]:
    """Return the values if none is there twice."""
    seen = set()
    for value in values:
        if value in seen:
            raise ValueError(f"duplicate {value!r}")
        seen.add(value)
    return values


def known(names: Collection[str], noun: str) -> AfterValidator:
    """Return a check that a text is one of ``names``; ``noun`` says what they name."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"no {noun} {name!r}; {suggest(name, names)}")
        return name

    return AfterValidator(check)


def positive_or(word: str) -> BeforeValidator:
    """Return a check for a positive integer or ``word``, as an error of a union would name both types."""

    def check(value: Any) -> Any:
        number = whole_number(value)
        if number != word and (type(number) is not int or number < 1):
            raise ValueError(f"must be {word} or an integer of at least 1, got {value!r}")
        return number

    return BeforeValidator(check)


def within(low: int, high: int) -> AfterValidator:
    """Return a check that an interval is within ``[low, high]``."""

    def check(interval: list[int]) -> list[int]:
        if interval[0] < low or interval[1] > high:
            raise ValueError(f"must be within {low} to {high}, got {interval}")
        return interval

    return AfterValidator(check)


RunName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Name of a run or study, which is part of paths."""
PlainText = Annotated[str, Field(pattern=r"^[\w.:+@ -]*$")]
"""Text without markup, which pages show as it is: a commit, a digest, a name."""
# Strict: true is not a number.
Integer = Annotated[int, BeforeValidator(whole_number), Field(strict=True)]
Count = Annotated[Integer, Field(ge=0)]
Positive = Annotated[Integer, Field(ge=1)]
SampleCount = Annotated[Positive, Field(le=100_000)]
ProgramCount = Annotated[Positive, Field(le=1_000_000)]
Value = Annotated[Integer, Field(ge=-1_000, le=1_000)]
"""A compared value; expressions have no others."""
Number = Annotated[float, BeforeValidator(_number), Field(strict=True)]
NonNegative = Annotated[Number, Field(ge=0)]
Above0 = Annotated[Number, Field(gt=0)]
Fraction = Annotated[Number, Field(ge=0, le=1)]
Rate = Annotated[Number, Field(gt=0, lt=1)]
DecayRate = Annotated[Number, Field(ge=0, lt=1)]
Distinct = Annotated[list[Item], Field(min_length=1), AfterValidator(check_distinct)]
"""At least one item, each once."""
Interval = Annotated[list[Integer], Field(min_length=2, max_length=2), AfterValidator(check_order)]
"""``[low, high]``, both included."""


class Range(Section):
    """Integers from low to high, both included."""

    low: Value
    high: Value

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        check_order([self.low, self.high])
        return self
