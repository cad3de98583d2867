"""``cadmus plan``."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus.cli.options import CONFIG, PATH, echo, echo_table, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cadmus.planning.study import StudyPlan
    from cadmus.planning.training import Choice, Estimate
    from cadmus.planning.workflow import WorkflowPlan


CPU_HOURS = 24
"""A training of at most this time on a CPU is planned for a CPU."""


@click.command()
@click.argument("config", type=CONFIG)
@click.option(
    "--devices", type=PATH, metavar="FILE", help="Table of devices; config/tables/devices.yaml by default."
)
@click.option(
    "--rates", type=PATH, metavar="FILE", help="Table of rates; config/tables/rates.yaml by default."
)
@click.option(
    "--profile",
    type=PATH,
    metavar="FILE",
    help="SLURM profile; workflow/profiles/slurm/config.yaml by default.",
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="GPU of the cluster; by default the first in the table of devices whose counts have train.ranks.",
)
@click.option("--all", "everything", is_flag=True, help="Show all devices, and the workflow on a cluster.")
@json_option
def plan(
    config: Path,
    devices: Path | None,
    rates: Path | None,
    profile: Path | None,
    gpu: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Estimate compute, time and cost of a run before it starts.

    CONFIG is the file or the name of a config, or the file of a study.

    The first table has the time and price of the training on each device. The time is the FLOPs over the
    rate of the device, plus a fixed time per step and layer that more devices do not shorten. MFU is the
    fraction of the peak rate; basis says whether the rate was measured or estimated. Counts of GPUs that do
    not divide the batch are left out, and train.ranks auto counts as one GPU. Numbers of tokens come from a
    small sample of each template.

    The second table, of a single run, has the jobs of the whole workflow on a cluster, and the core-hours and
    GPU-hours that they hold.

    The output fits the scale. If a CPU trains the model in a day, it lists CPUs and one GPU; otherwise it
    lists one type of GPU and the cluster. --all and --json have everything.

    \b
    Examples:
      cadmus plan laptop
      cadmus plan paper --gpu H200
      cadmus plan paper --json
    """
    from cadmus.config import load_config
    from cadmus.config.study import is_study, load_study
    from cadmus.planning import study, training, workflow

    table = devices or training.DEVICES
    if is_study(config):
        of_study = study.plan_study(load_study(config), table)
        _show_study(of_study, everything, as_json)
        return
    run = load_config(config)
    planned = training.plan(run, table)
    cluster = workflow.plan_workflow(
        run, planned, table, rates or workflow.RATES, profile or workflow.PROFILE, gpu
    )
    if as_json:
        click.echo(json.dumps({**asdict(planned), "workflow": asdict(cluster)}, indent=2))
        return
    small = gpu is None and not everything and _is_small(planned.estimates)
    lines = {
        "model": f"{planned.parameters:,} parameters, {planned.parameters_without_embeddings:,} without "
        "embeddings",
        "dataset": f"{planned.programs:,} programs, about {_short(planned.tokens)} tokens an epoch; all "
        f"splits about {_short(planned.dataset_bytes)}B in {planned.shards} shards",
        "training": f"{planned.steps:,} steps of {planned.batch_size:,} programs, about "
        f"{_short(planned.trained_tokens)} tokens, {planned.epochs:.2f} epochs",
        "compute": f"about {planned.flops:.2g} FLOPs",
    }
    for title, text in lines.items():
        echo(f"{title:<9} {text}")
    sizes = ", ".join(f"{name} {_short(size)}B" for name, size in cluster.disk_bytes.items())
    echo(f"{'disk':<9} at most {_short(sum(cluster.disk_bytes.values()))}B: {sizes}\n")
    shown = planned.estimates if everything else _relevant(planned.estimates, cluster.gpu, small)
    _show_devices(shown)
    if not small:
        echo(f"\n{'cheapest':<9} {_choice(cluster.choice, planned.ranks)}\n")
        _show_workflow(cluster)
    _mention_all(shown, planned.estimates, ", and the workflow on a cluster" if small else "")


def _is_small(estimates: "Sequence[Estimate]") -> bool:
    """Tell whether a CPU trains in at most :data:`CPU_HOURS`."""
    return any(estimate.hours <= CPU_HOURS for estimate in estimates if not _is_gpu(estimate, estimates))


def _is_gpu(estimate: "Estimate", estimates: "Sequence[Estimate]") -> bool:
    """Tell whether there are estimates for several counts of a device."""
    return sum(other.device.name == estimate.device.name for other in estimates) > 1


def _relevant(estimates: "Sequence[Estimate]", gpu: str, small: bool) -> "list[Estimate]":
    """Return the estimates to show: of a small training for CPUs and one GPU, else for counts of that GPU."""
    of_gpu = [estimate for estimate in estimates if estimate.device.name == gpu]
    if not small:
        return of_gpu
    return [estimate for estimate in estimates if not _is_gpu(estimate, estimates)] + of_gpu[:1]


def _mention_all(shown: "Sequence[Estimate]", estimates: "Sequence[Estimate]", more: str = "") -> None:
    if len(shown) < len(estimates):
        click.echo(f"\n--all adds {len(estimates) - len(shown)} rows of other devices{more}")


def _show_study(planned: "StudyPlan", everything: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(planned), indent=2))
        return
    counts = [(planned.variants, "variant"), (planned.seeds, "seed"), (planned.datasets, "dataset")]
    counts.append((planned.trainings, "training"))
    listed = ", ".join(f"{count} {name}{'s' * (count > 1)}" for count, name in counts)
    echo(f"{'study':<9} {planned.name}: {listed}; {', '.join(planned.experiments)} on each model")
    click.echo(f"{'compute':<9} about {planned.flops:.2g} FLOPs")
    click.echo(f"{'disk':<9} at most {_short(planned.disk_bytes)}B\n")
    gpus = (each.device.name for each in planned.estimates if _is_gpu(each, planned.estimates))
    shown: Sequence[Estimate] = planned.estimates
    if not everything and (gpu := next(gpus, None)):
        shown = _relevant(shown, gpu, _is_small(shown))
    _show_devices(shown)
    _mention_all(shown, planned.estimates)


def _show_devices(estimates: "Sequence[Estimate]") -> None:
    rows = [("on", "time", "USD", "MFU", "basis")]
    for estimate in estimates:
        device = estimate.device
        name = f"{device.count} × {device.name}" if device.count > 1 else device.name
        basis = "measured" if device.measured else "estimate"
        rows.append(
            (name, _time(estimate.hours), f"{estimate.usd:,.2f}", f"{100 * estimate.mfu:.0f}%", basis)
        )
    echo_table(rows)


def _choice(choice: "Choice", ranks: int | str) -> str:
    """Compare the configured number of GPUs with the cheapest in one line."""
    cheapest = f"{choice.cheapest} × {choice.gpu}"
    if choice.configured == choice.cheapest:
        return f"{cheapest}, as configured" + (" (ranks: auto counts as 1)" if ranks == "auto" else "")
    time = f"{choice.speedup:.1f}x faster" if choice.speedup >= 1 else f"{1 / choice.speedup:.1f}x slower"
    return (
        f"{cheapest}; the configured {choice.configured} are {time} and cost "
        f"{100 * (choice.cost_ratio - 1):.0f}% more"
    )


def _show_workflow(cluster: "WorkflowPlan") -> None:
    rows: list[tuple[str, ...]] = [(f"on a cluster with {cluster.gpu}", "jobs", "CPU-hours", "GPU-hours")]
    total = ("total", cluster.jobs, cluster.cpu_hours, cluster.gpu_hours)
    stages = [(stage.name, stage.jobs, stage.cpu_hours, stage.gpu_hours) for stage in cluster.stages]
    for name, jobs, *hours in (*stages, total):
        rows.append((name, f"{jobs:,}", *(f"{value:,.3f}" if value else "" for value in hours)))
    echo_table(rows)
    click.echo(f"\n{'GPU bill':<9} about {cluster.usd:,.2f} USD")


def _short(number: float) -> str:
    """Format with three digits and an SI prefix.

    >>> _short(22_343_825)
    '22.3 M'
    """
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 0.9995 * 10**power:
            return f"{number / 10**power:.3g} {prefix}"
    return f"{number:.0f} "


def _time(hours: float) -> str:
    """Format hours in a fitting unit.

    >>> _time(1.5)
    '90 min'
    """
    for unit, length in (("days", 24.0), ("h", 1.0), ("min", 1 / 60)):
        if hours >= 2 * length:
            return f"{hours / length:,.0f} {unit}" if hours >= 10 * length else f"{hours / length:.1f} {unit}"
    return f"{3600 * hours:.0f} s" if 3600 * hours >= 1 else "under 1 s"
