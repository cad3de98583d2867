"""The ``study`` section, which turns a config into several runs that are compared."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from cadmus.config.evaluation import EXPERIMENTS, Evaluate
from cadmus.config.fields import (
    Count,
    Distinct,
    Section,
    check_distinct,
    known,
    what_counts,
)
from cadmus.config.loading import (
    Config,
    digest,
    merged,
    named_source,
    parse_config,
    read_values,
    validate,
)
from cadmus.errors import InputError, suggest

STUDY = "study"
"""Key of the section; a config without it describes one run."""
TRAINING_LOSSES = ("loss", "completion_loss")
"""Metrics of a training."""
HELD_OUT_LOSS = "held_out_loss"
"""Metric of the experiment ``loss``, over all its programs."""
LOSSES = (HELD_OUT_LOSS, *TRAINING_LOSSES)
"""Metrics that are losses in nats; all others are accuracies."""
SHARED = "_shared"
"""Directory of what studies share; no run can have this name."""
MOST_RUNS = 10_000
"""Maximum number of runs of a study."""
SUMMARIZED = [name for name in EXPERIMENTS if getattr(Evaluate(), name).metrics]
"""Experiments whose summary a study can compare."""
Compared = Annotated[str, known(SUMMARIZED, "comparable experiment")]


class Study(Section):
    """A study: runs of this config with other values of some fields, compared over seeds.

    Runs with the same data share a dataset, and runs with the same training share a model, across studies as
    well.
    """

    question: str = ""
    """what the study asks; title of its page"""
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """named changes, such as `tied: {model: {tied: true}}`"""
    seeds: Distinct[Count] = [0, 1, 2]
    """values of train.seed for each variant; all have the same data"""
    base: str | None = None
    """variant that the others are compared with; the first when null"""
    experiments: Annotated[list[Compared], AfterValidator(check_distinct)] = ["completions"]
    """experiments on each model"""
    compare: Distinct[str] = ["completion_loss", "solved", "next_token"]
    """metrics in the table and the figures"""

    @model_validator(mode="after")
    def _check(self) -> "Study":
        runs = len(self.variants) * len(self.seeds)
        if runs > MOST_RUNS:
            raise ValueError(f"describes {runs:,} runs; at most {MOST_RUNS:,} are allowed")
        if self.base is not None and self.base not in self.variants:
            raise ValueError(f"base: no variant {self.base!r}; {suggest(self.base, sorted(self.variants))}")
        return self


class Run(NamedTuple):
    """A run of a study; its directories in results/ are named by what decides their content."""

    variant: str
    seed: int
    config: Config
    dataset: str
    training: str
    evaluation: str


class StudyRuns(NamedTuple):
    """A study and its runs: the seeds of the first variant, then those of the second."""

    name: str
    study: Study
    runs: tuple[Run, ...]

    @property
    def base(self) -> str:
        """Name of the variant that the others are compared with."""
        return self.study.base or self.runs[0].variant


def is_study(path: Path | str) -> bool:
    """Return True if a config file has a section ``study``."""
    values = read_values(path)
    # A file may hold no mapping; whoever validates it says so.
    return isinstance(values, dict) and STUDY in values


def load_study(path: Path | str, changes: dict[str, Any] | None = None) -> StudyRuns:
    """Read a study and expand it into its runs; ``changes`` are as for :func:`load_config`."""
    values = read_values(path, changes)
    if not isinstance(values, dict) or STUDY not in values:
        raise InputError(f"{path}: {STUDY}: is missing; a study needs variants")
    return parse_study(values, named_source(path, changes))


def parse_study(values: dict[str, Any], source: str) -> StudyRuns:
    """Return the runs of a study, whose ``values`` come from ``source``.

    The values have no defaults yet: a variant may change what decides them, such as ``train.recipe``.
    """
    study = validate(values[STUDY], Study, f"{source}: {STUDY}")
    base = {key: value for key, value in values.items() if key != STUDY}
    name = parse_config(base, source).name
    runs: list[Run] = []
    # By the evaluation of the last seed.
    variants: dict[str, str] = {}
    for variant, changes in study.variants.items():
        named = f"{source}: {STUDY}: {variant}"
        config = _parse_variant(base, changes, named)
        data = config.dataset_digest()
        runs += [_run(variant, config, data, seed) for seed in study.seeds]
        known = variants.setdefault(runs[-1].evaluation, variant)
        if known != variant:
            raise InputError(f"{named}: is the same as {known}; remove one, or change another field")
    metrics = list(TRAINING_LOSSES)
    for run in runs:
        for experiment in study.experiments:
            metrics += getattr(run.config.evaluate, experiment).metrics
    for metric in study.compare:
        if metric not in metrics:
            hint = suggest(metric, dict.fromkeys(metrics))
            raise InputError(f"{source}: {STUDY}: compare: no metric {metric!r}; {hint}")
    return StudyRuns(name, study, tuple(runs))


def _parse_variant(base: dict[str, Any], changes: dict[str, Any], named: str) -> Config:
    for key in ("name", "extends", STUDY):
        if key in changes:
            raise InputError(f"{named}: {key}: cannot differ between the runs of a study")
    config = parse_config(merged(base, changes), named)
    if "seed" in changes.get("train", {}):
        raise InputError(f"{named}: train.seed: list the seeds in {STUDY}.seeds")
    return config


def _run(variant: str, config: Config, data: str, seed: int) -> Run:
    # A copy is not validated again: a study may have thousands of runs, and nothing depends on the seed.
    train = config.train.model_copy(update={"seed": seed})
    config = config.model_copy(update={"train": train})
    training = {"dataset": data, "model": what_counts(config.model), "train": what_counts(train)}
    evaluation = {**training, "evaluate": what_counts(config.evaluate)}
    return Run(
        variant,
        seed,
        config,
        dataset=f"{SHARED}/dataset-{data}",
        training=f"{SHARED}/training-{digest(training)}",
        evaluation=f"{SHARED}/evaluation-{digest(evaluation)}",
    )
