"""The ``train`` section; those of objectives and of labs are below it."""

import math
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cadmus import plugins
from cadmus.config.fields import (
    Count,
    DecayRate,
    Fraction,
    NonNegative,
    Positive,
    Rate,
    Section,
    positive_or,
)
from cadmus.config.model import Model
from cadmus.config.objectives import Reinforcement, StateLabels

PAPER: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 1e-4,
    "matrix_learning_rate": None,
    "schedule": "cosine",
    "warmup_fraction": 0.0,
    "clip": 1.0,
    "prompt_weight": 1.0,
    "previous_token_heads": 0,
}
"""Defaults of the recipe ``paper``, as published; ``fast`` has the same accuracy with less compute."""


@plugins.extended("TRAIN")
class Train(Section):
    """Training."""

    recipe: Literal["paper", "fast"] = "fast"
    """`paper` has other defaults of the optimizer fields, see Recipes"""
    steps: Positive
    """optimizer steps"""
    init: Annotated[str, Field(min_length=1)] | None = None
    """directory of a model to start from, an export or a snapshot, instead of random weights"""
    seed: Count = 0
    """seed of the initial weights and the program order, combined with the seed of the run"""
    batch_size: Annotated[Positive, Field(le=1_000_000)] = 1024
    """programs per step, over all ranks"""
    micro_batch_size: Positive | None = None
    """programs per forward pass on one rank; all programs of the rank when null"""
    optimizer: Literal["adam", "muon"] = "muon"
    """`muon` trains the matrices of the blocks with Muon, everything else with Adam"""
    learning_rate: Rate = 2e-3
    """peak learning rate of Adam"""
    matrix_learning_rate: Rate | None = 0.0075
    """peak learning rate of Muon"""
    betas: Annotated[list[DecayRate], Field(min_length=2, max_length=2)] = [0.9, 0.95]
    """decay rates of Adam's moments"""
    weight_decay: NonNegative = 0.0
    """decoupled weight decay"""
    schedule: Literal["cosine", "linear", "constant"] = "linear"
    """decay of the learning rate to 0 over the steps"""
    warmup_fraction: Fraction = 0.02
    """fraction of the steps with linear warmup"""
    clip: NonNegative = 0.0
    """maximum gradient norm; 0 disables clipping"""
    prompt_weight: Fraction = 0.1
    """loss weight of a prompt token, relative to a completion token"""
    state_weight: NonNegative = 0.0
    """loss weight of state supervision, which predicts the VM's stack after every token by a layer that is
    not exported; 0 trains without"""
    state_labels: StateLabels = StateLabels()
    """what it predicts"""
    reinforcement: Reinforcement = Reinforcement()
    """reinforcement learning in the last steps"""
    previous_token_heads: Count = 2
    """heads of the first block that start by attending to the previous token, the one before it, and so on"""
    precision: Literal["bf16", "fp32"] | None = None
    """when null, bf16 if the CPU or GPU has bf16 instructions, otherwise fp32"""
    export_precision: Literal["bf16", "fp32"] = "fp32"
    """type of exported weights, which all experiments load"""
    ranks: Annotated[int | Literal["auto"], positive_or("auto")] = "auto"
    """training processes; `auto` is one per GPU (one per core without GPUs), reduced to a
    number that divides the batch"""
    zero_stage: Literal[0, 1, 2, 3] | None = None
    """stage of DeepSpeed's ZeRO, which shards the training over the ranks: 1 to 3 with `adam`, 0 with `muon`;
    when null, the first of them"""
    compile: bool = True
    """compile the blocks with torch.compile, except in short trainings on a CPU"""
    cuda_graph: bool = False
    """on one GPU, with `muon`: launch losses and gradients of a step as one graph, which a small model gains
    from; not tried on a GPU yet"""
    checkpoint_every: Positive = 250
    """steps between checkpoints; the last two are kept"""
    snapshots: Annotated[Positive, Field(le=1000)] = 9
    """exports during training, for accuracy by compute; log-spaced over the steps, including the last"""

    def unused(self) -> Collection[str]:
        unused = [] if self.state_weight else ["state_labels"]
        if self.optimizer != "muon":
            unused += ["matrix_learning_rate"]
        return unused

    @model_validator(mode="before")
    @classmethod
    def _apply_recipe(cls, values: Any) -> Any:
        is_paper = isinstance(values, dict) and values.get("recipe") == "paper"
        return PAPER | values if is_paper else values

    @model_validator(mode="after")
    def _check(self) -> "Train":
        if (fewer := self.reinforcement.batch_size) and fewer > self.batch_size:
            rule = f"must be at most batch_size {self.batch_size}"
            raise ValueError(f"reinforcement.batch_size: {rule}, got {fewer}")
        if problem := self.indivisible(1 if self.ranks == "auto" else self.ranks):
            raise ValueError(problem)
        if self.optimizer == "muon":
            self._check_muon()
        else:
            self._check_adam()
        return self

    def _check_muon(self) -> None:
        if self.matrix_learning_rate is None:
            raise ValueError("matrix_learning_rate: the optimizer muon needs one")
        if self.clip:
            # (log: the rates of DeepSpeed's Muon)
            raise ValueError(f"clip: muon does not learn with clipping; set 0, got {self.clip}")
        if self.zero_stage:
            problem = "muon keeps its whole state on every rank (stage 0)"
            fix = "remove it, or set optimizer: adam or recipe: paper"
            raise ValueError(f"zero_stage: {problem}; {fix}")

    def _check_adam(self) -> None:
        if self.zero_stage == 0:
            raise ValueError("zero_stage: must be 1, 2 or 3 with the optimizer adam, got 0")

    def objectives(self, model: Model) -> list[str]:
        """Return the names of the objectives of the core, modules in ``cadmus/train/objectives``."""
        weights = {
            "next_token": model.attention == "causal",
            "state_supervision": self.state_weight,
            "reinforcement": len(self.reinforcement_steps),
        }
        return [name for name, weight in weights.items() if weight]

    @property
    def reinforcement_steps(self) -> range:
        """Steps, counted from 0, that train on the reinforcement."""
        first = self.steps - math.ceil(self.reinforcement.fraction * self.steps)
        return range(first, self.steps)

    @property
    def programs(self) -> int:
        """Programs that all steps train on, those that come back included."""
        rewarded = len(self.reinforcement_steps)
        return (self.steps - rewarded) * self.batch_size + rewarded * self.programs_of(self.steps - 1)

    def programs_of(self, step: int) -> int:
        """Return the programs of a step, counted from 0, over all ranks."""
        fewer = self.reinforcement.batch_size if step in self.reinforcement_steps else None
        return fewer or self.batch_size

    def indivisible(self, ranks: int) -> str | None:
        """Return what keeps ranks from equal numbers of whole micro-batches and prompts, None if nothing."""
        programs, rest = divmod(self.batch_size, ranks)
        if rest:
            return f"batch_size: must be a multiple of ranks {ranks}, got {self.batch_size}"
        micro_batch = self.micro_batch_size or programs
        if programs % micro_batch:
            return f"micro_batch_size: must divide the {programs} programs of a rank, got {micro_batch}"
        rewarded = self.reinforcement
        if rewarded.fraction and rewarded.prompts % ranks:
            return f"reinforcement.prompts: must be a multiple of ranks {ranks}, got {rewarded.prompts}"
        # All steps have as many micro-batches.
        count, fewer = self.batch_size // micro_batch, rewarded.batch_size
        if rewarded.fraction and fewer and fewer % count:
            rule = f"must be a multiple of the {count} micro-batches of a step"
            return f"reinforcement.batch_size: {rule}, got {fewer}"
        return None
