"""The ``study`` section, which turns a config into several runs that are compared."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, JsonValue, model_validator

from cadmus.config.evaluation import EXPERIMENTS, Evaluate
from cadmus.config.fields import Above0, Count, Section, check_distinct, known
from cadmus.config.loading import extended, merged, parse_config, read_yaml, validate
from cadmus.config.schema import Config, digest
from cadmus.errors import InputError, suggest

STUDY = "study"
"""Key of the section; a config without it describes one run."""
VARIANTS = "variants"
"""Name of the factor whose levels are ``study.variants``."""
TRAINING_LOSSES = ("loss", "completion_loss")
"""Metrics of a training."""
HELD_OUT_LOSS = "held_out_loss"
"""Metric of the experiment ``loss``, over all its programs."""
LOSSES = (HELD_OUT_LOSS, *TRAINING_LOSSES)
"""Metrics that are losses in nats; all others are accuracies."""
LAW_VARIANTS = 6
"""A scaling law has five coefficients."""
SHARED = "_shared"
"""Directory of what studies share; no run can have this name."""
LONGEST_NAME = 300
"""Characters of the name of a variant; figures show it."""
MOST_RUNS = 10_000
"""Maximum number of runs of a study."""
SUMMARIZED = [name for name in EXPERIMENTS if getattr(Evaluate(), name).metrics]
"""Experiments whose summary a study can compare."""
Compared = Annotated[str, known(SUMMARIZED, "comparable experiment")]


class Study(Section):
    """A study: runs of this config with other values of some fields, compared over seeds.

    Every variant is combined with every level of every factor. Runs with the same data share a dataset, and
    runs with the same training share a model, across studies as well.
    """

    question: str = ""
    """what the study asks; title of its page"""
    variants: dict[str, dict[str, Any]] = {}
    """named changes, such as `tied: {model: {tied: true}}`"""
    factors: dict[str, Annotated[list[JsonValue], Field(min_length=1)]] = {}
    """values of single fields, such as `train.steps: [1000, 2000]`"""
    seeds: Annotated[list[Count], Field(min_length=1), AfterValidator(check_distinct)] = [0, 1, 2]
    """values of train.seed for each variant; all have the same data"""
    base: str | None = None
    """variant that the others are compared with; the first when null"""
    experiments: list[Compared] = ["completions"]
    """experiments on each model"""
    compare: Annotated[list[str], Field(min_length=1)] = ["completion_loss", "solved", "next_token"]
    """metrics in the table and the figures"""
    law_flops: list[Above0] = []
    """FLOPs at which a scaling law, fitted to the loss by parameters and programs, gives the optimal size; no
    law is fitted without any"""

    @model_validator(mode="after")
    def _check(self) -> "Study":
        if not self.variants and not self.factors:
            raise ValueError("needs variants or factors")
        variants = math.prod(map(len, self.factors.values()), start=len(self.variants) or 1)
        if variants * len(self.seeds) > MOST_RUNS:
            raise ValueError(
                f"describes {variants * len(self.seeds):,} runs; at most {MOST_RUNS:,} are allowed"
            )
        if self.law_flops and (variants < LAW_VARIANTS or not set(LOSSES) & set(self.compare)):
            raise ValueError(
                f"law_flops: a law needs {LAW_VARIANTS} variants, got {variants}, and one of "
                f"{', '.join(LOSSES)} in compare"
            )
        return self


class Run(NamedTuple):
    """A run of a study.

    Attributes:
        variant: name, without the seed.
        levels: of each factor.
        seed: ``train.seed``.
        config: with all defaults.
        dataset, training, evaluation: directories in results/, named by what decides their content.
    """

    variant: str
    levels: dict[str, Any]
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

    @property
    def factors(self) -> list[str]:
        """Names of the factors with several levels."""
        levels = {name: {repr(run.levels[name]) for run in self.runs} for name in self.runs[0].levels}
        return [name for name, found in levels.items() if len(found) > 1]


def is_study(path: Path | str) -> bool:
    """Return True if a config file has a section ``study``."""
    return _has_study(extended(read_yaml(path), Path(path)))


def _has_study(values: Any) -> bool:
    # A file may hold no mapping; whoever validates it says so.
    return isinstance(values, dict) and STUDY in values


def load_study(path: Path | str) -> StudyRuns:
    """Read a study and expand it into its runs."""
    values = extended(read_yaml(path), Path(path))
    if not _has_study(values):
        raise InputError(f"{path}: {STUDY}: is missing; a study needs variants or factors")
    return parse_study(values, str(path))


def parse_study(values: dict[str, Any], source: str) -> StudyRuns:
    """Return the runs of a study.

    Args:
        values: of the config and its section ``study``, without defaults: a variant may change what decides
            them, such as ``train.recipe``.
        source: where they come from, for errors.
    """
    source_of_study = f"{source}: {STUDY}"
    study = validate(values[STUDY], Study, source_of_study)
    rest = {key: value for key, value in values.items() if key != STUDY}
    name = parse_config(rest, source).name
    runs: list[Run] = []
    names: set[str] = set()
    same: dict[str, str] = {}
    for variant, levels, changes in _variants(study):
        if len(variant) > LONGEST_NAME:
            raise InputError(
                f"{source_of_study}: {variant[:40]}...: a variant's name must have at most {LONGEST_NAME} "
                f"characters, got {len(variant):,}; shorten it, or name the levels in {STUDY}.{VARIANTS}"
            )
        place = f"{source_of_study}: {variant}"
        if variant in names:
            raise InputError(f"{place}: is named twice; remove one")
        names.add(variant)
        for key in ("name", "extends", STUDY):
            if key in changes:
                raise InputError(f"{place}: {key}: cannot differ between the runs of a study")
        changed = merged(rest, changes)
        parse_config(changed, place)
        if "seed" in changes.get("train", {}):
            raise InputError(f"{place}: train.seed: list the seeds in {STUDY}.seeds")
        for seed in study.seeds:
            config = parse_config(merged(changed, {"train": {"seed": seed}}), place)
            runs.append(_run(variant, levels, seed, config))
        known = same.setdefault(runs[-1].evaluation, variant)
        if known != variant:
            raise InputError(f"{place}: is the same as {known}; remove one, or change another field")
    if study.base is not None and study.base not in names:
        raise InputError(
            f"{source_of_study}: base: no variant {study.base!r}; {suggest(study.base, sorted(names))}"
        )
    metrics = list(TRAINING_LOSSES)
    for run in runs:
        metrics += [name for each in study.experiments for name in getattr(run.config.evaluate, each).metrics]
    for metric in study.compare:
        if metric not in metrics:
            hint = suggest(metric, dict.fromkeys(metrics))
            raise InputError(f"{source_of_study}: compare: no metric {metric!r}; {hint}")
    return StudyRuns(name, study, tuple(runs))


def _variants(study: Study) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name, the levels and the changes of each variant."""
    factors: dict[str, list[tuple[str, Any, dict[str, Any]]]] = {}
    if study.variants:
        factors[VARIANTS] = [(name, name, changes) for name, changes in study.variants.items()]
    for field, levels in study.factors.items():
        key = field.rpartition(".")[2]
        factors[field] = [(f"{key}={level_text(level)}", level, _nested(field, level)) for level in levels]
    for combination in itertools.product(*factors.values()):
        combined: dict[str, Any] = {}
        for _, _, changes in combination:
            combined = merged(combined, changes)
        name = ", ".join(name for name, _, _ in combination)
        yield name, dict(zip(factors, (level for _, level, _ in combination), strict=True)), combined


def level_text(level: Any) -> str:
    """Return a level of a factor as text."""
    return level if isinstance(level, str) else json.dumps(level)


def _nested(field: str, value: Any) -> dict[str, Any]:
    for key in reversed(field.split(".")):
        value = {key: value}
    return value


def _run(variant: str, levels: dict[str, Any], seed: int, config: Config) -> Run:
    """Return a run whose directories are named by the digests of what decides their content."""
    data = config.dataset_digest()
    trained = {"dataset": data, **config.model_dump(include={"model", "train"})}
    evaluated = {**trained, **config.model_dump(include={"evaluate"})}
    return Run(
        variant,
        levels,
        seed,
        config,
        dataset=f"{SHARED}/dataset-{data}",
        training=f"{SHARED}/training-{digest(trained)}",
        evaluation=f"{SHARED}/evaluation-{digest(evaluated)}",
    )
