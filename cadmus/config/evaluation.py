"""The ``evaluate`` section, with a section for each experiment.

The experiments are the sections of :class:`Evaluate`, with those of labs; ``docs/experiments.md`` adds one.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from cadmus import plugins
from cadmus.config.fields import (
    Above0,
    Positive,
    ProgramCount,
    Range,
    SampleCount,
    Section,
    Value,
)

Variable = Literal["first", "second", "top", "difference", "call", "length", "aggregate"]
"""Variables of the VM, see :mod:`cadmus.evaluate.prompts.counterfactuals`."""


class Settings(Section):
    """Settings of one experiment."""

    metrics: ClassVar[Sequence[str]] = ()
    """Metrics in the summary of the experiment, which studies compare."""


class Completions(Settings):
    """Completions of test programs."""

    metrics: ClassVar = ("solved", "fits", "exact", "next_token", "verified", "ceiling")

    programs: ProgramCount = 2_000
    """maximum number of programs per template"""


class Loss(Settings):
    """Loss on the completions of test programs."""

    metrics: ClassVar = ("held_out_loss",)

    programs: ProgramCount = 2_000
    """maximum number of programs per template"""


class PassAtK(Settings):
    """Several sampled completions of each test program."""

    programs: ProgramCount = 200
    """maximum number of programs per template"""
    samples: SampleCount = 16
    """completions sampled per program, the largest k"""
    temperature: Above0 = 1.0
    """divisor of the logits"""

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        names = ("solved", "verified", "fits", "greedy_solved", "ceiling")
        return [f"{name}@{k}" for name in names for k in budgets(self.samples)]


def budgets(samples: int) -> list[int]:
    """Return the values of k of pass@k: powers of two and the number of samples itself.

    >>> budgets(16), budgets(20)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 20])
    """
    return [*(1 << power for power in range((samples - 1).bit_length())), samples]


class Induction(Settings):
    """Induction against the exact posterior."""

    metrics: ClassVar = ("voted", "greedy", "ceiling")

    programs: ProgramCount = 100
    """prompts with each number of examples"""
    examples: Annotated[Positive, Field(le=8)] = 8
    """largest number of examples, as far as programs have room"""
    samples: SampleCount = 64
    """definitions sampled per prompt"""


class Curve(Settings):
    """Completions of test programs by each snapshot of the training."""

    programs: ProgramCount = 500
    """maximum number of programs per template"""


class Grid(Range, Settings):
    """The comparison grid: every pair of values (X, Y)."""

    metrics: ClassVar = ("accuracy",)

    low: Value = -60
    """smallest value of X and Y"""
    high: Value = 60
    """largest value of X and Y"""
    programs_per_pixel: Annotated[Positive, Field(le=10_000)] = 10
    """test programs per pair (X, Y)"""
    balanced: Positive = 2_000
    """test programs, in the training range and in each region around it, whose operators do not tell the
    comparator"""


class Probe(Settings):
    """Logistic regression probes for the two compared values."""

    metrics: ClassVar = ("probed",)

    train_programs: ProgramCount = 20_000
    """programs to fit the probes"""
    validation_programs: ProgramCount = 2_000
    """programs to choose the regularization"""
    test_programs: ProgramCount = 2_000
    """programs to score the probes"""
    inverse_regularization: Annotated[
        list[Above0], Field(min_length=1, max_length=8), AfterValidator(sorted)
    ] = [0.1, 1.0, 10.0]
    """candidates: C of scikit-learn's LogisticRegression"""

    @property
    def programs(self) -> int:
        """Programs of the three parts."""
        return self.train_programs + self.validation_programs + self.test_programs


@plugins.extended("EVALUATE", "EXPERIMENTS")
class Evaluate(Section):
    """Experiments with the trained model, each with a section of its own."""

    split: Literal["validation", "test", "ood"] = "test"
    """split whose programs are completed"""
    batch_size: Positive | None = None
    """programs completed at a time; when null, a number that suits the device"""
    completions: Completions = Completions()
    loss: Loss = Loss()
    pass_at_k: PassAtK = PassAtK()
    induction: Induction = Induction()
    curve: Curve = Curve()
    grid: Grid = Grid()
    probe: Probe = Probe()


EXPERIMENTS = tuple(name for name, settings in Evaluate() if isinstance(settings, Settings))
"""Names of the experiments, in the order in which documents list them."""
