"""Estimates of a study before it starts."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cadmus.config.study import Run, StudyRuns
from cadmus.errors import InputError
from cadmus.planning.training import DEVICES, Estimate, Plan, plan
from cadmus.planning.workflow import disk_bytes

GB = 10**9


@dataclass(frozen=True)
class StudyPlan:
    """The size of a study; what several runs share counts once.

    Attributes:
        name: of the study.
        variants, seeds, datasets, trainings: numbers of them.
        experiments: on each model.
        flops: of all trainings.
        disk_bytes: of all files, at most.
        estimates: of all trainings one after another, by device.
    """

    name: str
    variants: int
    seeds: int
    datasets: int
    trainings: int
    experiments: list[str]
    flops: float
    disk_bytes: int
    estimates: tuple[Estimate, ...]


def plan_study(study: StudyRuns, devices: Path = DEVICES) -> StudyPlan:
    """Estimate the size, time and cost of a study.

    Raises:
        InputError: the table of devices is invalid, or a template has no program that fits.
    """
    trainings = {run.training: run for run in study.runs}
    planned = [plan(run.config, devices) for run in trainings.values()]
    return StudyPlan(
        name=study.name,
        variants=len({run.variant for run in study.runs}),
        seeds=len(study.study.seeds),
        datasets=len({run.dataset for run in study.runs}),
        trainings=len(trainings),
        experiments=study.study.experiments,
        flops=sum(training.flops for training in planned),
        disk_bytes=_disk(study.runs),
        estimates=tuple(_totals(planned)),
    )


def check_disk(study: StudyRuns, results: Path) -> None:
    """Check that the file system of ``results`` has room for what the study still needs.

    Raises:
        InputError: it has not.
    """
    place = next(parent for parent in (results.absolute(), *results.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    missing = [run for run in study.runs if not (results / run.training / "model").exists()]
    needed = _disk(missing, [run.dataset for run in missing if (results / run.dataset).exists()])
    if needed > free:
        raise InputError(
            f"study {study.name}: needs at most {needed / GB:.1f} GB of disk, {place} has {free / GB:.1f} GB "
            "free; use fewer variants or seeds, or a smaller dataset"
        )


def _disk(runs: Iterable[Run], finished_datasets: Iterable[str] = ()) -> int:
    """Return the bytes of the datasets and trainings of ``runs``, each once."""
    datasets = set(finished_datasets)
    total = 0
    for run in {run.training: run for run in runs}.values():
        sizes = disk_bytes(run.config, plan(run.config))
        dataset = sizes.pop("dataset")
        total += sum(sizes.values()) + (0 if run.dataset in datasets else dataset)
        datasets.add(run.dataset)
    return total


def _totals(planned: list[Plan]) -> Iterable[Estimate]:
    """Yield the sum of the estimates of each device that suits all trainings."""
    by_device = [{estimate.device: estimate for estimate in training.estimates} for training in planned]
    for device in by_device[0]:
        if all(device in estimates for estimates in by_device):
            each = [estimates[device] for estimates in by_device]
            hours = sum(estimate.hours for estimate in each)
            used = sum(estimate.mfu * estimate.hours for estimate in each)
            yield Estimate(device, hours, sum(estimate.usd for estimate in each), used / hours)
