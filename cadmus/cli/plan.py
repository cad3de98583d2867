"""``cadmus plan``."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus.cli.options import CONFIG, DIRECTORY, PATH, echo_table, json_option

if TYPE_CHECKING:
    from cadmus.planning.cluster import ClusterPlan
    from cadmus.planning.training import Choice, Plan


@click.command()
@click.argument("config", type=CONFIG)
@click.option(
    "--devices",
    type=PATH,
    metavar="FILE",
    help="A table of devices with their speeds and prices, in place of config/devices.tsv.",
)
@click.option(
    "--rates",
    type=PATH,
    metavar="FILE",
    help="A table of rates, in place of config/rates.tsv.",
)
@click.option(
    "--profile",
    type=DIRECTORY,
    metavar="DIR",
    help="The folder of a profile of Snakemake, in place of workflow/profiles/slurm.",
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="The device that the cluster has; by default the first with ranks in the column counts.",
)
@json_option
def plan(
    config: Path,
    devices: Path | None,
    rates: Path | None,
    profile: Path | None,
    gpu: str | None,
    as_json: bool,
) -> None:
    """Estimate compute, hours and cost of a run before it starts.

    CONFIG is its config file. Numbers after the word about come from a small sample of each template. A
    training takes its FLOPs over the rate of the devices, plus a time per step and layer that more devices do
    not shorten. Rates and prices are in config/devices.tsv. The column basis says whether the rate of a
    device was measured or estimated; MFU is the share of its peak. Counts of GPUs that do not divide the
    batch are left out, and train.ranks auto counts as one GPU.

    The second table is the whole workflow on a SLURM cluster: jobs by rule, and the hours for which they hold
    cores and GPUs. Below it are the most disk space, the bill, and the overhead: the time that jobs hold
    their cores and GPUs beside their work. Rates and their sources are in config/rates.tsv. The profile says
    how shards share jobs.

    \b
    Examples:
      cadmus plan config/laptop.yaml
      cadmus plan config/paper.yaml --gpu H200 --json
    """
    from cadmus.config import load_config
    from cadmus.planning import cluster as cluster_plan
    from cadmus.planning import training as planning

    run = load_config(config)
    table = devices or planning.DEVICES
    planned = planning.plan(run, table)
    cluster = cluster_plan.plan_cluster(
        run, planned, table, rates or cluster_plan.RATES, profile or cluster_plan.PROFILE, gpu
    )
    if as_json:
        click.echo(json.dumps({**asdict(planned), "cluster": asdict(cluster)}, indent=2))
        return
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
        click.echo(f"{title:<9} {text}")
    click.echo()
    _show_devices(planned)
    click.echo(f"\n{'cheapest':<9} {_choice(cluster.choice, planned.ranks)}\n")
    _show_cluster(cluster)


def _show_devices(planned: "Plan") -> None:
    rows = [("on", "time", "USD", "MFU", "basis")]
    for estimate in planned.estimates:
        device = estimate.device
        name = f"{device.count} × {device.name}" if device.count > 1 else device.name
        basis = "measured" if device.measured else "estimate"
        rows.append(
            (name, _time(estimate.hours), f"{estimate.usd:,.2f}", f"{100 * estimate.mfu:.0f}%", basis)
        )
    echo_table(rows)


def _choice(choice: "Choice", ranks: int | str) -> str:
    """Return the line that compares the configured number of GPUs with the cheapest."""
    cheapest = f"{choice.cheapest} × {choice.gpu}"
    if choice.configured == choice.cheapest:
        return f"{cheapest}, as configured" + (" (ranks: auto counts as 1)" if ranks == "auto" else "")
    time = f"{choice.speedup:.1f}x faster" if choice.speedup >= 1 else f"{1 / choice.speedup:.1f}x slower"
    return (
        f"{cheapest}; the configured {choice.configured} are {time} and cost "
        f"{100 * (choice.cost_ratio - 1):.0f}% more"
    )


def _show_cluster(cluster: "ClusterPlan") -> None:
    rows: list[tuple[str, ...]] = [(f"on a cluster with {cluster.gpu}", "jobs", "CPU-hours", "GPU-hours")]
    total = ("total", cluster.jobs, cluster.cpu_hours, cluster.gpu_hours)
    stages = [(stage.rule, stage.jobs, stage.cpu_hours, stage.gpu_hours) for stage in cluster.stages]
    for name, jobs, *hours in (*stages, total):
        rows.append((name, f"{jobs:,}", *(f"{value:,.3f}" if value else "" for value in hours)))
    echo_table(rows)
    disk = ", ".join(f"{name} {_short(size)}B" for name, size in cluster.disk_bytes.items())
    lines = {
        "besides": f"{cluster.local_jobs} short jobs on the login node, not counted here",
        "disk": f"at most {_short(sum(cluster.disk_bytes.values()))}B: {disk}",
        "bill": f"about {cluster.usd:,.2f} USD, the overhead included",
        "overhead": f"{cluster.overhead_seconds:g} s a job, in which it holds its cores and GPUs: "
        f"{100 * cluster.overhead:.1f}% of the price of the work",
        "": f"({100 * cluster.gpu_overhead:.1f}% of the GPU-hours and {100 * cluster.cpu_overhead:.1f}% of "
        "the CPU-hours above)",
    }
    click.echo()
    for title, text in lines.items():
        click.echo(f"{title:<9} {text}")


def _short(number: float) -> str:
    """Three digits and a prefix of the SI.

    >>> _short(22_343_825)
    '22.3 M'
    """
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 0.9995 * 10**power:
            return f"{number / 10**power:.3g} {prefix}"
    return f"{number:.0f} "


def _time(hours: float) -> str:
    """Hours in the unit that fits.

    >>> _time(1.5)
    '90 min'
    """
    for unit, length in (("days", 24.0), ("h", 1.0), ("min", 1 / 60)):
        if hours >= 2 * length:
            return f"{hours / length:,.0f} {unit}" if hours >= 10 * length else f"{hours / length:.1f} {unit}"
    return f"{3600 * hours:.0f} s" if 3600 * hours >= 1 else "under 1 s"


COMMANDS = (plan,)
