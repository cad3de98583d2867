"""``cadmus bench``."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cadmus.cli.options import (
    CONFIG,
    MODEL,
    WholeNumber,
    config_option,
    echo_table,
    json_option,
    model_option,
)

if TYPE_CHECKING:
    from cadmus.bench import Measured


@click.group()
def bench() -> None:
    """Measure speed on this machine.

    Each benchmark prints a table and the settings. --json prints one flat object instead; a cell of the table
    has the key ROW_COLUMN.

    \b
    Examples:
      cadmus bench vm
      cadmus bench decode laptop --json > docs/results/bench_decode.json
    """


def _benchmark(function: "Callable[..., Measured]") -> click.Command:
    """Make a command of a function that returns the results."""

    @functools.wraps(function)
    def command(as_json: bool, **arguments: Any) -> None:
        _print(function(**arguments), as_json)

    return bench.command()(json_option(command))


def _print(measured: "Measured", as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(measured.as_object()))
        return
    if measured.rows:
        columns = list(dict.fromkeys(column for row in measured.rows.values() for column in row))
        cells = [
            [name, *(f"{row[column]:,}" if column in row else "" for column in columns)]
            for name, row in measured.rows.items()
        ]
        echo_table([["", *columns], *cells])
        click.echo()
    echo_table(
        [("setting or result", "value"), *((name, f"{value:,}") for name, value in measured.facts.items())]
    )


@_benchmark
def vm() -> "Measured":
    """Speed of the compiled and the reference VM on one core.

    Rows: number (instructions per second; programs uniform over digits, arithmetic and comparisons), mixture
    (the same, uniform over all instructions but the end), candidates (programs per second; two expressions of
    five instructions and a comparator). Each rate is a median.

    \b
    Example:
      cadmus bench vm
    """
    from cadmus.bench.programs import bench_vm

    return bench_vm()


@_benchmark
def templates() -> "Measured":
    """True programs per second of each template, on one core.

    Programs count if they were executed and passed every filter: true, of the training split, no duplicate.
    Each rate is the median of several shards with the default config.

    \b
    Example:
      cadmus bench templates
    """
    from cadmus.bench.programs import bench_templates

    return bench_templates()


@_benchmark
@config_option
def dataset(config: Path) -> "Measured":
    """Speed of sampling a whole dataset, shard by shard.

    Each shard is sampled by its own process, as in the workflow, and times are CPU seconds. Rates are
    programs per second on one core, without the start of a process. The files go to a temporary folder; those
    of config/paper.yaml take a gigabyte and some minutes.

    \b
    Example:
      cadmus bench dataset --config quick
    """
    from cadmus.bench.dataset import bench_dataset

    return bench_dataset(config)


@_benchmark
@click.option(
    "--config",
    type=CONFIG,
    metavar="FILE",
    help="Config of the model and the templates; 5M parameters without.",
)
@click.option(
    "--programs", "count", type=WholeNumber(min=1), metavar="N", help="Programs per step, 256 by default."
)
def train(config: Path | None, count: int | None) -> "Measured":
    """Speed of a training step.

    One process trains on the same programs in several ways in turn.

    \b
    Rows:
      cadmus                          as `cadmus train`: packed rows, DeepSpeed
      written_out_64, fused_64        eager attention or SDPA, rows of 64 tokens, no DeepSpeed
      written_out_128, fused_128      the same in rows of 128
      written_out_compiled_64, ...    on a GPU also with torch.compile
      packing                         as cadmus, packing the programs in each step
      labels                          as packing, with labels for state supervision
      padded                          as cadmus, one program per row
      transformers_fp32, _bf16        GPT-NeoX of transformers, bf16 by autocast
      transformers_padded_fp32, ...   the same, one program per row

    Padding does not count as tokens; fill is the fraction of computed tokens that are not padding.
    cadmus_over_WAY is the speed of cadmus relative to WAY, cadmus_share_of_matmul its FLOP/s relative to
    matrix products. A way that fails, for example out of memory, prints one line on standard error.

    \b
    Examples:
      cadmus bench train
      cadmus bench train --config config/paper.yaml --programs 512
    """
    from cadmus.bench.training import PROGRAMS, bench_train
    from cadmus.config import load_config

    return bench_train(load_config(config) if config else None, count or PROGRAMS)


@_benchmark
@click.option(
    "--programs",
    "count",
    type=WholeNumber(min=2_000),
    metavar="N",
    help="Programs of the training set; 80,200,000 by default, as in the paper.",
)
def batches(count: int | None) -> "Measured":
    """Time to prepare the batch of a training step.

    A batch has 1,024 random programs, packed into rows of 96 tokens. epoch_seconds is the time of the first
    batch of an epoch, which includes the permutation of the epoch.

    \b
    Example:
      cadmus bench batches
    """
    from cadmus.bench.batches import PROGRAMS, bench_batches

    return bench_batches(count or PROGRAMS)


@_benchmark
@click.argument("model", type=MODEL)
def decode(model: Path) -> "Measured":
    """Speed of completion by MODEL, compared with transformers.

    Both complete the same test prompts of all templates greedily, in one batch and in fp32. ratio is the
    speed relative to `generate` of transformers, same_completions the fraction of equal completions.

    \b
    Example:
      cadmus bench decode laptop
    """
    from cadmus.bench.decoding import bench_decode

    return bench_decode(model)


@_benchmark
def tasks() -> "Measured":
    """Speed of `cadmus.tasks` and `cadmus.verify`.

    Per question and split: first is the time to the first task in seconds, after one task of the question was
    drawn; tasks are tasks per second and verify references graded per second, both in lists of 2,000.

    \b
    Example:
      cadmus bench tasks
    """
    from cadmus.bench.tasks import bench_tasks

    return bench_tasks()


@_benchmark
@click.argument("model", type=MODEL)
def probe(model: Path) -> "Measured":
    """Speed of the probes on MODEL, compared with scikit-learn.

    Both fit X on the output of the final block, at each token and with each regularisation, on all cores.
    accuracy is the mean over the tokens on test programs, mean_difference and largest_difference are those
    between the two accuracies at a token.

    \b
    Example:
      cadmus bench probe laptop
    """
    from cadmus.bench.probing import bench_probe

    return bench_probe(model)


@_benchmark
@config_option
@click.argument("model", type=MODEL)
def busy(config: Path, model: Path) -> "Measured":
    """Speed while other processes compete for the cores.

    The training of a config, completions by MODEL and its probes run in turn: alone, then beside one and two
    processes that never wait. This takes about five minutes. alone is the rate without these: tokens,
    batches of completions or fits of probes per second. beside_1 and beside_2 are fractions of it; of_fair_1
    and of_fair_2 compare them with what is left if all threads get equal time.

    \b
    Example:
      cadmus bench busy laptop --config laptop
    """
    from cadmus.bench.busy import bench_busy

    return bench_busy(config, model)


@_benchmark
@model_option
def explore(directory: Path | None) -> "Measured":
    """Response time of `cadmus explore`.

    The page is opened in a real browser, which needs Chromium and the package playwright. server times its
    two requests; page times the update from the last key to the drawn frame.

    \b
    Example:
      cadmus bench explore
    """
    from cadmus.bench.exploring import bench_explore

    return bench_explore(directory)


@_benchmark
def start() -> "Measured":
    """Start-up time of the command line.

    Wall-clock medians of `python -c pass`, `import cadmus`, `cadmus --help` and `cadmus run '34+7='`.

    \b
    Example:
      cadmus bench start
    """
    from cadmus.bench.start import bench_start

    return bench_start()
