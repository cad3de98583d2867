"""``cadmus plan``."""

import json
from dataclasses import asdict
from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--devices",
    type=click.Path(path_type=Path),
    help="A table of devices with their speeds and prices, in place of config/devices.tsv.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def plan(config: Path, devices: Path | None, as_json: bool) -> None:
    """Say what a training with the file CONFIG takes before it starts: compute, tokens, disk, hours, cost.

    What is marked with about comes from a small sample of each template. The hours are FLOPs over what a
    device achieves, and the cost is hours times its price, both of which stand in config/devices.tsv; the
    prices are assumptions. The dataset and the experiments come on top.

    \b
    Examples:
      cadmus plan config/laptop.yaml
      cadmus plan config/paper.yaml --json
    """
    from cadmus import plan as planning
    from cadmus.config import load_config

    planned = planning.plan(load_config(config), devices or planning.DEVICES)
    if as_json:
        click.echo(json.dumps(asdict(planned), indent=2))
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
    rows = [("on", "time", "USD")]
    for estimate in planned.estimates:
        device = estimate.device
        name = f"{device.count} × {device.name}" if device.count > 1 else device.name
        rows.append((name, _time(estimate.hours), f"{estimate.usd:,.2f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, time, usd in rows:
        click.echo(f"{name:<{widths[0]}}  {time:>{widths[1]}}  {usd:>{widths[2]}}")


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
