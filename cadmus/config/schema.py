"""Every field of a config: its meaning, its default and its valid values.

A file under ``config/`` names a run and its scale; everything it leaves out has the default given here.
``workflow/schemas/config.schema.json`` and the tables of ``config/README.md`` are written from these
classes by ``cadmus config --write`` and a test holds them current.
"""

import hashlib
import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from cadmus import isa
from cadmus.errors import suggest


def _whole_number(value: Any) -> Any:
    """Snakemake's ``--config section={key: 20}`` hands over the text ``20``."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value


def _number(value: Any) -> Any:
    """Text of a number: from a command line, or ``1e-3``, which YAML takes for text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


# Strict, as true is no number.
Integer = Annotated[int, BeforeValidator(_whole_number), Field(strict=True)]
Count = Annotated[Integer, Field(ge=0)]
Positive = Annotated[Integer, Field(ge=1)]
Value = Annotated[Integer, Field(ge=-1_000, le=1_000)]
"""A compared value; those of the expressions lie well within."""
Number = Annotated[float, BeforeValidator(_number), Field(strict=True)]
Share = Annotated[Number, Field(ge=0, le=1)]
Rate = Annotated[Number, Field(gt=0, lt=1)]
Interval = Annotated[list[Integer], Field(min_length=2, max_length=2)]

OPERATORS = "".join(row.symbol for row in isa.INSTRUCTIONS if row.group == "arithmetic")
"""The instructions that make one number of two."""

SPLITS = ("train", "validation", "test")
"""The splits that every dataset has; the hash of a program decides between them."""

OOD = "ood"
"""The split of what the rules of ``dataset.ood`` exclude; without rules there is none."""

LONGEST_PROGRAM = 250
"""Limit of ``dataset.max_length``: a prompt's length is one byte in a shard."""
MOST_SHARDS = 1_000
"""Shards of one template in one split; each is a job of the workflow."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def check_ascending(interval: list[int]) -> list[int]:
    if interval[0] > interval[1]:
        raise ValueError(f"the lower end {interval[0]} is above the upper end {interval[1]}")
    return interval


class Values(Section):
    """The numbers that basic_math, equality, less_greater and subroutines compare."""

    low: Annotated[Value, Field(description="smallest compared value")] = -20
    high: Annotated[Value, Field(description="largest compared value")] = 20
    uniform_fraction: Annotated[
        Share,
        Field(
            serialization_alias="uniform_share",
            description="fraction of the numbers drawn uniformly over the values; the others are drawn "
            "uniformly over the expressions, so that a value is as frequent as programs for it are; both "
            "before duplicates are removed, which are many where a value has few programs",
        ),
    ] = 0.5

    @model_validator(mode="after")
    def _check(self) -> "Values":
        check_ascending([self.low, self.high])
        return self


class Template(Section):
    """What every template has."""

    compares: ClassVar[bool] = False
    """Whether its programs compare two numbers, x and y."""

    train: Annotated[Count, Field(description="programs of this template in the training set")] = 0


Lengths = Annotated[
    list[Literal[1, 3, 5, 7]],
    Field(min_length=1, description="instructions in an expression"),
]


class ExpressionTemplate(Template):
    """Two number expressions and a comparator: ``941-*55*2+=``."""

    compares: ClassVar[bool] = True

    expression_lengths: Lengths = [5]
    length_weights: Annotated[
        list[Annotated[Number, Field(gt=0)]] | None,
        Field(description="how often each of `expression_lengths` is drawn; all alike when null"),
    ] = None
    operators: Annotated[str, Field(description=f"operators of the expressions, some of `{OPERATORS}`")] = (
        OPERATORS
    )

    @field_validator("operators")
    @classmethod
    def _in_order(cls, operators: str) -> str:
        if not operators or not set(operators) <= set(OPERATORS):
            raise ValueError(f"{operators!r} is no selection of the operators {OPERATORS}")
        # The same operators in another order are the same dataset.
        return "".join(operator for operator in OPERATORS if operator in operators)

    @model_validator(mode="after")
    def _check_lengths(self) -> "ExpressionTemplate":
        lengths, weights = self.expression_lengths, self.length_weights
        if len(set(lengths)) < len(lengths):
            raise ValueError(f"expression_lengths: {lengths} has a length twice; use length_weights")
        if weights is not None and len(weights) != len(lengths):
            raise ValueError(
                f"length_weights: {len(weights)} weights for the {len(lengths)} expression_lengths {lengths}"
            )
        return self


class BasicMath(ExpressionTemplate):
    """An expression compared with a digit: ``12+0>``."""

    expression_lengths: Lengths = [3, 5]


class Subroutines(Template):
    """Calls of subroutines, compared with an expression."""

    compares: ClassVar[bool] = True


class Random(Template):
    """Uniform sequences of instructions that happen to be true."""

    length: Annotated[Interval, Field(description="fewest and most instructions")] = [4, 16]

    @field_validator("length")
    @classmethod
    def _check(cls, interval: list[int]) -> list[int]:
        check_ascending(interval)
        if not 1 <= interval[0] <= interval[1] <= LONGEST_PROGRAM:
            raise ValueError(f"{interval} is no interval within 1 to {LONGEST_PROGRAM} instructions")
        return interval


class SequenceTemplate(Template):
    """A template that builds sequences."""

    sequence_length: Annotated[Interval, Field(description="fewest and most elements of a sequence")] = [1, 4]

    @field_validator("sequence_length")
    @classmethod
    def _check(cls, interval: list[int]) -> list[int]:
        if not 1 <= interval[0] <= interval[1] <= 9:
            raise ValueError(f"{interval} is no interval within 1 to 9 elements")
        return interval


class CompleteAlgorithm(SequenceTemplate):
    """Examples of a function, then its definition."""

    examples: Annotated[Interval, Field(description="fewest and most examples of a program")] = [3, 5]

    @field_validator("examples")
    @classmethod
    def _check_examples(cls, interval: list[int]) -> list[int]:
        if not 1 <= interval[0] <= interval[1] <= 6:
            raise ValueError(f"{interval} is no interval within 1 to 6 examples")
        return interval


class Templates(Section):
    """The sub-problems, in the order of the paper's Table 3.

    A field's name is the name of the function in the file of this name under ``cadmus/templates/``.
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
"""The names of the templates."""


class OODRule(Section):
    """A rule excludes programs from train, validation and test; the split ood is sampled from them.

    ``dataset.ood`` gives each rule a name.  A rule has one of ``values``, ``length`` and ``contains``; a
    program is excluded when any rule matches it.  With ``evaluate.split: ood`` the experiment that
    completes programs completes these, which are out of the distribution that was trained on:

    ```yaml
    dataset:
      ood:
        sevens: {values: [7, [13, 15]], compared: either}
        long: {length: [40, 63], templates: [complete_algorithm]}
        product_then_minus: {contains: ["*-"], templates: [equality, less_greater]}
    evaluate: {split: ood}
    ```
    """

    values: Annotated[
        list[int | list[int]] | None,
        Field(min_length=1, description="numbers and intervals [low, high] that compared values x, y have"),
    ] = None
    compared: Annotated[
        Literal["either", "both"],
        Field(description="whether one of x and y among `values` is enough for a match, or both have to be"),
    ] = "either"
    length: Annotated[Interval | None, Field(description="fewest and most instructions of a match")] = None
    contains: Annotated[
        list[str] | None,
        Field(min_length=1, description="instructions, or pieces such as `*-`, of which a match has one"),
    ] = None
    templates: Annotated[
        list[str] | None, Field(min_length=1, description="templates that the rule is for; all when null")
    ] = None

    @field_validator("values", mode="before")
    @classmethod
    def _check_values(cls, values: Any) -> Any:
        for value in values if isinstance(values, list) else []:
            bounds = value if isinstance(value, list) else [value]
            if len(bounds) not in (1, 2) or not all(type(bound) is int for bound in bounds):
                raise ValueError(f"{value!r} is neither an integer nor an interval [low, high]")
            check_ascending([bounds[0], bounds[-1]])
        return values

    @field_validator("length")
    @classmethod
    def _check_length(cls, interval: list[int] | None) -> list[int] | None:
        return interval and check_ascending(interval)

    @field_validator("contains")
    @classmethod
    def _check_contains(cls, pieces: list[str] | None) -> list[str] | None:
        for piece in pieces or []:
            if not piece or set(piece) - (set(isa.BY_SYMBOL) - {isa.END}):
                raise ValueError(f"{piece!r} is no piece of a program; `cadmus isa` lists the instructions")
        return pieces

    @field_validator("templates")
    @classmethod
    def _check_templates(cls, templates: list[str] | None) -> list[str] | None:
        for template in templates or []:
            if template not in TEMPLATES:
                raise ValueError(f"no template {template!r}; {suggest(template, TEMPLATES)}")
        return templates

    @model_validator(mode="after")
    def _check(self) -> "OODRule":
        if sum(given is not None for given in (self.values, self.length, self.contains)) != 1:
            raise ValueError("a rule has exactly one of values, length and contains")
        if self.compared == "both" and self.values is None:
            raise ValueError("compared: goes with values only")
        without = [name for name in self.templates or [] if not getattr(Templates(), name).compares]
        if self.values is not None and without:
            raise ValueError(
                f"templates: {without[0]} compares no numbers; those that do are "
                + ", ".join(name for name in TEMPLATES if getattr(Templates(), name).compares)
            )
        return self

    def is_for(self, template: str) -> bool:
        """Whether the rule is for programs of this template."""
        return self.templates is None or template in self.templates


class Dataset(Section):
    """Which true programs are sampled."""

    values: Values = Values()
    max_length: Annotated[
        Positive,
        Field(le=LONGEST_PROGRAM, description="longest program, in instructions, the end not counted"),
    ] = 63
    # A column of strings in a shard holds less than 2 GiB.
    shard_size: Annotated[Positive, Field(le=8_000_000, description="most programs in one shard")] = 250_000
    validation: Annotated[Count, Field(description="validation programs of each template")] = 2_000
    test: Annotated[Count, Field(description="test programs of each template")] = 2_000
    eval_fraction: Annotated[
        Rate,
        Field(
            lt=0.5,
            serialization_alias="held_out_share",
            description="fraction of all possible programs that is set aside for validation, and again for "
            "test; the hash of a program alone decides",
        ),
    ] = 0.05
    ood: Annotated[
        dict[str, OODRule],
        Field(description="rules, by name, for programs to keep out of train, validation and test"),
    ] = {}
    ood_programs: Annotated[
        Count, Field(description="programs of each template in the split ood, which the rules make")
    ] = 2_000
    templates: Templates = Templates()

    @model_validator(mode="after")
    def _check(self) -> "Dataset":
        most = max(self.validation, self.test, *(getattr(self.templates, name).train for name in TEMPLATES))
        if most > MOST_SHARDS * self.shard_size:
            raise ValueError(
                f"shard_size: {most} programs in shards of {self.shard_size} are more than {MOST_SHARDS} "
                f"shards; set at least {-(-most // MOST_SHARDS)}"
            )
        return self

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the dataset has."""
        return (*SPLITS, OOD) if self.ood else SPLITS

    def rules_for(self, template: str) -> dict[str, OODRule]:
        """The held-out rules for a template, by name."""
        return {name: rule for name, rule in self.ood.items() if rule.is_for(template)}


class Model(Section):
    """The decoder."""

    layers: Annotated[Positive, Field(le=1_000, description="transformer blocks")]
    width: Annotated[Positive, Field(le=100_000, description="embedding dimension")]
    heads: Annotated[Positive, Field(description="attention heads; they divide the width evenly")]
    mlp: Annotated[Positive, Field(le=1_000_000, description="hidden size of the MLP")]
    tied: Annotated[bool, Field(description="one matrix for input and output embedding")] = False

    @model_validator(mode="after")
    def _check(self) -> "Model":
        if self.width % self.heads:
            raise ValueError(f"heads: {self.heads} does not divide width {self.width}")
        if self.width // self.heads % 2:
            raise ValueError(
                f"heads: rotary positions need an even width per head, not {self.width // self.heads}"
            )
        return self


RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "betas": [0.9, 0.95],
        "weight_decay": 0.0,
        "schedule": "cosine",
        "warmup_fraction": 0.0,
        "clip": 1.0,
        "prompt_weight": 1.0,
    },
    "fast": {
        "optimizer": "muon",
        "learning_rate": 2e-3,
        "matrix_learning_rate": 0.0075,
        "betas": [0.9, 0.95],
        "weight_decay": 0.0,
        "schedule": "linear",
        "warmup_fraction": 0.02,
        "clip": 0.0,
        "prompt_weight": 0.1,
    },
}
"""``paper``: the paper's recipe.  ``fast``: what reaches the same accuracy for less compute."""


class Train(Section):
    """How the model is trained."""

    recipe: Annotated[
        Literal["paper", "fast"],
        Field(description="set of values for the optimizer fields below that are not given"),
    ] = "fast"
    steps: Annotated[Positive, Field(description="optimizer steps")]
    seed: Annotated[
        Count,
        Field(description="of the first weights and the order of the programs, beside the seed of the run"),
    ] = 0
    batch_size: Annotated[Positive, Field(le=1_000_000, description="programs per step, over all ranks")] = (
        1024
    )
    micro_batch_size: Annotated[
        Positive | None,
        Field(description="programs per forward pass on one rank; the whole share of the rank when null"),
    ] = None
    row_length: Annotated[
        Annotated[Positive, Field(le=65_536)] | None,
        Field(
            description="tokens in a packed row; room for the longest program and its end when null",
        ),
    ] = None
    optimizer: Literal["adam", "muon"] = "muon"
    learning_rate: Annotated[Rate, Field(description="peak rate of Adam")] = 1e-4
    matrix_learning_rate: Annotated[
        Rate | None, Field(description="peak rate of Muon, for the matrices of the blocks")
    ] = None
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)] = [0.9, 0.95]
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    schedule: Annotated[
        Literal["cosine", "linear", "constant"], Field(description="decay to 0 over the steps")
    ] = "cosine"
    warmup_fraction: Annotated[Share, Field(description="share of the steps in which the rate rises")] = 0.0
    clip: Annotated[Number, Field(ge=0, description="largest norm of the gradient; 0 does not clip")] = 0.0
    zero_stage: Annotated[Positive, Field(le=3, description="DeepSpeed ZeRO stage")] = 1
    prompt_weight: Annotated[
        Share,
        Field(
            description="what the loss of a token of a prompt counts beside that of a token of a completion; "
            "1 makes all alike"
        ),
    ] = 1.0
    precision: Annotated[
        Literal["bf16", "fp32"] | None,
        Field(description="bf16 where the processor or GPU computes in it, fp32 elsewhere, when null"),
    ] = None
    ranks: Annotated[
        Integer | Literal["auto"],
        Field(
            description="training processes over all nodes; `auto` is one per GPU or, on a machine without "
            "GPUs, one per core, as far as they divide the batch"
        ),
    ] = "auto"
    compile: Annotated[
        bool, Field(description="compile the blocks with torch.compile on a GPU, below ZeRO stage 3")
    ] = True
    checkpoint_every: Annotated[Positive, Field(description="steps between checkpoints")] = 250
    keep_checkpoints: Annotated[Positive, Field(description="checkpoints kept, the newest first")] = 2
    snapshots: Annotated[
        Positive,
        Field(
            le=1000,
            description="exports left on the way, the last step among them, to follow accuracy over compute; "
            "evenly spaced in the logarithm of the steps",
        ),
    ] = 9

    @field_validator("ranks", mode="before")
    @classmethod
    def _check_ranks(cls, given: Any) -> Any:
        ranks = _whole_number(given)
        if ranks != "auto" and (type(ranks) is not int or ranks < 1):
            raise ValueError(f"must be auto or an integer of at least 1, got {given!r}")
        return ranks

    @model_validator(mode="before")
    @classmethod
    def _apply_recipe(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        recipe = given.get("recipe", "fast")
        known = isinstance(recipe, str) and recipe in RECIPES
        return {**RECIPES[recipe], **given} if known else given

    @model_validator(mode="after")
    def _check(self) -> "Train":
        least_ranks = 1 if self.ranks == "auto" else self.ranks
        if self.batch_size % least_ranks:
            raise ValueError(f"batch_size: {self.batch_size} is not a multiple of ranks {self.ranks}")
        if not self.divides(least_ranks):
            raise ValueError(
                f"micro_batch_size: {self.micro_batch_size} does not divide the "
                f"{self.batch_size // least_ranks} programs of a rank"
            )
        if self.optimizer == "muon" and self.matrix_learning_rate is None:
            raise ValueError("matrix_learning_rate: the optimizer muon needs one")
        if self.optimizer == "muon" and self.clip:
            raise ValueError(
                f"clip: {self.clip:g} stops the optimizer muon from learning (docs/log.md); set 0"
            )
        if self.optimizer == "muon" and self.zero_stage != 1:
            raise ValueError(f"zero_stage: the optimizer muon needs stage 1, not {self.zero_stage}")
        return self

    def divides(self, ranks: int) -> bool:
        """Whether so many ranks get the same number of programs each, in whole micro-batches."""
        share, rest = divmod(self.batch_size, ranks)
        return not rest and not share % (self.micro_batch_size or share)


class Evaluate(Section):
    """Experiments on the trained model; each has a section of its own."""

    split: Annotated[Literal["validation", "test", "ood"], Field(description="split that is completed")] = (
        "test"
    )
    batch_size: Annotated[Positive, Field(description="programs per forward pass")] = 512

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Llm(Section):
    """Large language models that are asked about programs of the comparison grid, in the training range.

    Nothing is sent unless `models` names one and OPENAI_API_KEY is set; see docs/llm.md.
    """

    models: Annotated[
        list[str], Field(description="names of rows of config/llms.tsv; no model is asked when empty")
    ] = []
    symbols: Annotated[
        list[Literal["normal", "alternate"]],
        Field(min_length=1, description="the kinds of symbols that programs are written in"),
    ] = ["normal", "alternate"]
    max_output_tokens: Annotated[
        list[Annotated[Positive, Field(le=1_000_000)]],
        Field(
            min_length=1, description="limits of an answer, reasoning included; each is a point of the figure"
        ),
    ] = [256, 512, 1024, 2048, 4096, 8192]
    programs_per_pair: Annotated[Positive, Field(description="programs of each pair of values")] = 1
    grid_max_output_tokens: Annotated[
        Annotated[Positive, Field(le=1_000_000)],
        Field(description="the limit of the answers in the comparison grid"),
    ] = 2048
    grid_programs_per_pair: Annotated[
        Positive, Field(description="programs of each pair of values in the comparison grid")
    ] = 1
    max_cost_usd: Annotated[
        Number,
        Field(ge=0, description="nothing is sent that could bring the cost of the run above it, in USD"),
    ] = 5.0
    concurrency: Annotated[
        Positive, Field(le=1_000, description="requests under way at a time, without batches")
    ] = 32
    requests_per_minute: Annotated[
        Annotated[Number, Field(gt=0)] | None,
        Field(description="most requests in a minute, without batches; no limit when null"),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> "Llm":
        for field in ("models", "symbols", "max_output_tokens"):
            given = getattr(self, field)
            twice = next((value for value in given if given.count(value) > 1), None)
            if twice is not None:
                raise ValueError(f"{field}: {twice!r} comes twice")
        return self


class Config(Section):
    """One run: its name, its scale and its data."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$",
            description="name of the run; its results lie in results/<name>",
        ),
    ]
    seed: Annotated[Count, Field(description="seed from which all random choices derive")] = 1
    dataset: Dataset
    model: Model
    train: Train
    evaluate: Evaluate = Evaluate()
    llm: Llm = Llm()

    @model_validator(mode="after")
    def _check(self) -> "Config":
        if not any(getattr(self.dataset.templates, name).train for name in TEMPLATES):
            raise ValueError("dataset.templates: no template has a number of train programs above 0")
        needed = self.dataset.max_length + 1
        if self.train.row_length is not None and self.train.row_length < needed:
            raise ValueError(
                f"train.row_length: {self.train.row_length} is too short for a program of "
                f"dataset.max_length {self.dataset.max_length} and its end; set at least {needed}"
            )
        if self.evaluate.split not in self.dataset.splits:
            raise ValueError("evaluate.split: ood needs a rule in dataset.ood")
        most = self.evaluate.grid.programs_per_pixel
        for field in ("programs_per_pair", "grid_programs_per_pair"):
            if getattr(self.llm, field) > most:
                raise ValueError(
                    f"llm.{field}: {getattr(self.llm, field)} is more than the "
                    f"evaluate.grid.programs_per_pixel {most}"
                )
        return self

    def dataset_digest(self) -> str:
        """Sixteen hexadecimal digits of everything that decides which programs are sampled.

        Fields that were renamed count under their first name, the serialization alias, and the rules only
        where there are any: a dataset keeps its digest.
        """
        unused = set() if self.dataset.ood else {"ood", "ood_programs"}
        return digest({"seed": self.seed, "dataset": self.dataset.model_dump(exclude=unused, by_alias=True)})


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
