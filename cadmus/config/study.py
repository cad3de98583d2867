"""The ``study`` section, which turns a config into several runs that are compared."""

import importlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from cadmus.config.fields import Above0, Count, Section
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


class Study(Section):
    """A study: runs of this config with other values of some fields, compared over seeds.

    Every variant is combined with every level of every factor. Runs with the same data share a dataset, and
    runs with the same training share a model, across studies as well.
    """

    question: str = ""
    """what the study asks; title of its page"""
    variants: dict[str, dict[str, Any]] = {}
    """named changes, such as `tied: {model: {tied: true}}`"""
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """values of single fields, such as `train.steps: [1000, 2000]`"""
    seeds: Annotated[list[Count], Field(min_length=1)] = [0, 1, 2]
    """values of train.seed for each variant; all have the same data"""
    base: str | None = None
    """variant that the others are compared with; the first when null"""
    experiments: list[str] = ["completions"]
    """experiments on each model"""
    compare: Annotated[list[str], Field(min_length=1)] = ["completion_loss", "solved", "next_token"]
    """metrics in the table and the figures"""
    law_flops: list[Above0] = []
    """FLOPs at which a scaling law, fitted to the loss by parameters and programs, gives the optimal size; no
    law is fitted without any"""


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
    """Return True if a config file has a section ``study``.

    Raises:
        InputError: a file is missing or not YAML.
    """
    return _has_study(extended(read_yaml(path), Path(path)))


def _has_study(values: Any) -> bool:
    # A file may hold no mapping; whoever validates it says so.
    return isinstance(values, dict) and STUDY in values


def load_study(path: Path | str) -> StudyRuns:
    """Read a study and expand it into its runs.

    Raises:
        InputError: a file is missing, not YAML, or invalid, or describes a single run.
    """
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

    Raises:
        InputError: a value is invalid, a factor names an unknown field, or two variants are the same.
    """
    rest = {key: value for key, value in values.items() if key != STUDY}
    study = validate(values[STUDY], Study, f"{source}: {STUDY}")
    name = parse_config(rest, source).name
    runs: list[Run] = []
    same: dict[str, str] = {}
    for variant, levels, changes in _variants(study, source):
        if len(variant) > LONGEST_NAME:
            raise InputError(
                f"{source}: {STUDY}: {variant[:40]}...: a variant's name must have at most {LONGEST_NAME} "
                f"characters, got {len(variant):,}; shorten it, or name long levels in {STUDY}.{VARIANTS}"
            )
        place = f"{source}: {STUDY}: {variant}"
        if any(run.variant == variant for run in runs):
            raise InputError(f"{place}: is named twice; remove one")
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
    _check(study, runs, source)
    return StudyRuns(name, study, tuple(runs))


def _variants(study: Study, source: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name, the levels and the changes of each variant."""
    factors: dict[str, list[tuple[str, Any, dict[str, Any]]]] = {}
    if study.variants:
        factors[VARIANTS] = [(name, name, changes) for name, changes in study.variants.items()]
    for field, levels in study.factors.items():
        key = field.rpartition(".")[2]
        factors[field] = [(f"{key}={level_text(level)}", level, _nested(field, level)) for level in levels]
    if not factors:
        raise InputError(f"{source}: {STUDY}: needs variants or factors")
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
    nested: dict[str, Any] = value
    return nested


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


def _check(study: Study, runs: list[Run], source: str) -> None:
    variants = list(dict.fromkeys(run.variant for run in runs))
    if study.base is not None and study.base not in variants:
        raise InputError(
            f"{source}: {STUDY}.base: no variant {study.base!r}; {suggest(study.base, variants)}"
        )
    registry = importlib.import_module("cadmus.experiments")
    summarized = [name for name in registry.NAMES if registry.get(name).summary]
    for name in study.experiments:
        if name not in summarized:
            raise InputError(
                f"{source}: {STUDY}.experiments: no experiment {name!r} with a summary; "
                f"{suggest(name, summarized)}"
            )
    if study.law_flops and (len(variants) < LAW_VARIANTS or not set(LOSSES) & set(study.compare)):
        raise InputError(
            f"{source}: {STUDY}.law_flops: a law needs {LAW_VARIANTS} variants, got {len(variants)}, and one "
            f"of {', '.join(LOSSES)} in {STUDY}.compare"
        )
    if len(set(study.seeds)) < len(study.seeds):
        raise InputError(f"{source}: {STUDY}.seeds: names a seed twice, got {study.seeds}")
