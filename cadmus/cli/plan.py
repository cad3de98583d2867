"""``cadmus plan``."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from cadmus.cli.options import CONFIG, changes_option, echo, echo_table, json_option
from cadmus.config import load_config
from cadmus.config.loading import EXTENDS, read_yaml
from cadmus.config.study import is_study
from cadmus.errors import InputError
from cadmus.plan import Estimate
from cadmus.plan import plan as plan_run
from cadmus.tables import counted

_short = tqdm.format_sizeof


@click.command()
@click.argument("config", type=CONFIG)
@changes_option
@json_option
def plan(config: Path, changes: dict[str, Any], as_json: bool) -> None:
    """Estimate compute, time and cost of a run before it starts. CONFIG is of one run, not of a study.

    The table has the time and price of the training on each device: the FLOPs over the rate of the device,
    plus a fixed time per step and layer that more devices do not shorten. MFU is the fraction of the peak
    rate; basis says whether the rate was measured or estimated. Counts of GPUs that do not divide the batch
    are left out, and train.ranks auto counts as one GPU. Numbers of tokens come from a small sample of each
    template.

    \b
    Examples:
      cadmus plan laptop
      cadmus plan paper --json
    """
    if is_study(config):
        base = read_yaml(config).get(EXTENDS, "a config without `study`")
        fix = f"plan {base}, with its fields by --set, times the trainings that `cadmus study runs` lists"
        raise InputError(f"{config}: study: describes several runs; {fix}")
    planned = plan_run(load_config(config, changes))
    if as_json:
        click.echo(json.dumps(planned, indent=2, default=asdict))
        return
    for title, text in _size(planned).items():
        echo(f"{title:<9} {text}")
    click.echo()
    echo_table([("on", "time", "USD", "MFU", "basis"), *map(_row, planned["estimates"])])


def _size(plan: dict[str, Any]) -> dict[str, str]:
    sizes = ", ".join(f"{name} {_short(size)}B" for name, size in plan["disk_bytes"].items())
    where = "2 CPU cores" if plan["ranks"] == "auto" else counted(plan["gpus"], "GPU")
    return {
        "model": f"{plan['parameters']:,} parameters, "
        f"{plan['parameters_without_embeddings']:,} without embeddings",
        "dataset": f"{plan['programs']:,} programs, about {_short(plan['tokens'])} tokens an epoch; "
        f"all splits about {_short(plan['dataset_bytes'])}B in {plan['shards']} shards",
        "training": f"{plan['steps']:,} steps of {plan['batch_size']:,} programs, about "
        f"{_short(plan['trained_tokens'])} tokens, {plan['epochs']:.2f} epochs",
        "compute": f"about {plan['flops']:.2g} FLOPs",
        "disk": f"at most {_short(sum(plan['disk_bytes'].values()))}B: {sizes}",
        "memory": f"at most {_short(plan['memory_bytes'])}B of the host, training on {where}",
        "GPU": f"about {_short(plan['gpu_memory_bytes'])}B of each, if it trains there",
    }


def _row(estimate: Estimate) -> tuple[str, ...]:
    name = f"{estimate.count} × {estimate.device}" if estimate.count > 1 else estimate.device
    basis = "measured" if estimate.measured else "estimate"
    return name, _time(estimate.hours), f"{estimate.usd:,.2f}", f"{100 * estimate.mfu:.0f}%", basis


def _time(hours: float) -> str:
    """Format hours in a fitting unit.

    >>> _time(1.5)
    '90 min'
    """
    for unit, length in (("days", 24.0), ("h", 1.0), ("min", 1 / 60)):
        if hours >= 2 * length:
            digits = 0 if hours >= 10 * length else 1
            return f"{hours / length:,.{digits}f} {unit}"
    return f"{3600 * hours:.0f} s" if 3600 * hours >= 1 else "under 1 s"
