"""``cadmus bench``."""

import json
from pathlib import Path

import click

from cadmus.cli.options import CONFIG, EXISTING, WholeNumber, config_option, model_option

_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print what is measured as one flat JSON object."
)


@click.group()
def bench() -> None:
    """Measure speed on this machine.

    \b
    Examples:
      cadmus bench vm
      cadmus bench decode models/laptop --json
    """


@bench.command()
@_json_option
def vm(as_json: bool) -> None:
    """Speed of the compiled and of the readable machine, on one core.

    Number programs are uniform over digits, arithmetic and comparisons; the mixture is uniform over all
    instructions but the end; candidates are two expressions of five instructions and a comparator. Each rate
    is the median of several repeats made now. The table also has what other machines reach, measured
    elsewhere.

    \b
    Keys of the JSON object:
      program_length                 instructions in a number program and in one of the mixture
      repeats                        repeats of each measurement
      number_programs                number programs that the compiled machine runs
      number_compiled_per_second     instructions a second, compiled machine, number programs
      number_reference_per_second    the same of the readable machine
      number_ratio                   compiled / reference
      mixture_programs, mixture_compiled_per_second, mixture_reference_per_second, mixture_ratio
                                     the same four on the mixture
      candidates                     candidates that the compiled machine runs
      candidates_compiled_per_second, candidates_reference_per_second
                                     candidates (not instructions) a second
      candidates_ratio               compiled / reference
      candidates_true_share          share of them that are true

    \b
    Examples:
      cadmus bench vm
      cadmus bench vm --json > docs/results/bench_vm.json
    """
    from cadmus.bench.programs import PEER_CANDIDATES, PEER_INSTRUCTIONS, bench_vm

    measured = bench_vm()
    if as_json:
        click.echo(json.dumps(measured))
        return
    rows = (("number programs", "number"), ("mixture", "mixture"), ("candidates/s", "candidates"))
    click.echo(f"{'instructions/s':<16}{'compiled':>12}{'reference':>12}{'ratio':>9}")
    for label, name in rows:
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        click.echo(f"{label:<16}{compiled:>12.3g}{reference:>12.3g}{measured[f'{name}_ratio']:>9.1f}")
    click.echo(
        f"{measured['program_length']} instructions a program, median of {measured['repeats']} repeats; "
        f"candidates: 11 instructions, {measured['candidates_true_share']:.3f} of them true"
    )
    _show_peers("instructions/s, number programs", PEER_INSTRUCTIONS)
    _show_peers("candidates/s, drawing included", PEER_CANDIDATES)


@bench.command()
@_json_option
def templates(as_json: bool) -> None:
    """True programs a second of each template, on one core.

    A program counts when it was executed and passed every filter: true, of the training split, no duplicate.
    Each rate is the median of several shards drawn now, with the default fields of a config. The table
    also has what other generators reach, measured elsewhere.

    \b
    Keys of the JSON object:
      programs                         true programs asked for in each repeat
      repeats                          repeats of each measurement
      TEMPLATE_kept_per_second         programs kept a second, for each TEMPLATE
      TEMPLATE_candidates_per_second   candidates drawn for them a second

    \b
    Examples:
      cadmus bench templates
      cadmus bench templates --json > docs/results/bench_templates.json
    """
    from cadmus.bench.programs import PEER_SAMPLES, bench_templates
    from cadmus.config import TEMPLATES

    measured = bench_templates()
    if as_json:
        click.echo(json.dumps(measured))
        return
    click.echo(f"{'programs/s':<22}{'kept':>12}{'candidates':>12}")
    for template in TEMPLATES:
        kept, drawn = measured[f"{template}_kept_per_second"], measured[f"{template}_candidates_per_second"]
        click.echo(f"{template:<22}{kept:>12.3g}{drawn:>12.3g}")
    click.echo(f"{measured['programs']} programs of each or more, median of {measured['repeats']} repeats")
    _show_peers("samples/s", PEER_SAMPLES)


@bench.command()
@config_option
@_json_option
def dataset(config: Path, as_json: bool) -> None:
    """Speed of making a whole dataset, shard by shard.

    Each shard is made by a process, as in the workflow. Seconds are those of the processor. A rate leaves out
    the start of a process. What is written goes to a temporary folder: the dataset of config/paper.yaml takes
    a gigabyte and some minutes.

    \b
    Keys of the JSON object:
      programs, shards                 of the dataset, all splits
      TEMPLATE_per_second              training programs a second of one core, for each TEMPLATE
      manifest_per_second              programs that the manifest checks a second, on one core
      start_seconds                    of a shard's process, from the small shards of validation and test
      start_torch_seconds              of a process that loads torch and the probes
      seconds                          of all shards and the manifest

    \b
    Examples:
      cadmus bench dataset --config config/quick.yaml
      cadmus bench dataset --config config/quick.yaml --json > docs/results/bench_dataset.json
    """
    from cadmus.bench.dataset import bench_dataset

    measured = bench_dataset(config)
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name, value in measured.items():
        click.echo(f"{name.replace('_', ' '):<36}{value:>12,}")


@bench.command()
@click.option(
    "--config",
    type=CONFIG,
    metavar="FILE",
    help="A config file, of which the model and the templates are. Five million parameters without it.",
)
@click.option(
    "--programs", "count", type=WholeNumber(min=1), metavar="N", help="Programs of a step, 256 by default."
)
@_json_option
def train(config: Path | None, count: int | None, as_json: bool) -> None:
    """Speed of a training step.

    One process trains on the same programs in several ways in turn: as `cadmus train` does, with other forms
    of attention, without packing, and with the GPT-NeoX of transformers. Tokens are those of the programs and
    their ends; padding does not count. A way that fails, for example out of memory, is named on standard
    error and left out.

    \b
    Keys of the JSON object:
      parameters, programs, tokens     of the model; of a step
      repeats, threads                 repeats of each measurement; threads of the process
      bits                             of the precision that a training has on this machine: 16 (bf16) or 32
      WAY_tokens_per_second            tokens a second, for each WAY
      WAY_programs_per_second          programs a second
      WAY_fill                         share of the computed tokens that are no padding
      matmul_gflop_per_second          rate of products of square matrices
      cadmus_gflop_per_second          rate of what the model needs, three forward passes a step
      cadmus_share_of_matmul           the one by the other
      cadmus_over_WAY                  how many times as fast cadmus is
    Ways: cadmus (packed rows, DeepSpeed); written_out_64, fused_64, written_out_128, fused_128
    (attention in rows of so many tokens, without DeepSpeed), and on a GPU also
    written_out_compiled_64, fused_compiled_64 (with torch.compile) and those of 128; buckets
    (programs of like length); padded (each program in a row of the longest);
    transformers_fp32, transformers_bf16 (autocast), in rows as cadmus has them, and
    transformers_padded_fp32, transformers_padded_bf16. Those in bf16 are left out where
    a training is in fp32. A row is at least as long as the longest program.

    \b
    Examples:
      cadmus bench train
      cadmus bench train --json > docs/results/bench_train.json
      cadmus bench train --config config/paper.yaml --programs 512
    """
    from cadmus.bench.training import PROGRAMS, bench_train
    from cadmus.config import load_config

    run = None if config is None else load_config(config)
    measured = bench_train(run, PROGRAMS if count is None else count)
    if as_json:
        click.echo(json.dumps(measured))
        return
    ways = [key.removesuffix("_fill") for key in measured if key.endswith("_fill")]
    click.echo(f"{'':<26}{'tokens/s':>12}{'programs/s':>12}{'fill':>7}")
    for way in ways:
        tokens, programs = (measured[f"{way}_{what}_per_second"] for what in ("tokens", "programs"))
        click.echo(f"{way:<26}{tokens:>12,}{programs:>12,}{measured[f'{way}_fill']:>7.2f}")
    click.echo(
        f"{measured['parameters']:,} parameters, {measured['programs']} programs a step, "
        f"{measured['threads']} threads, median of {measured['repeats']} repeats"
    )
    click.echo(
        f"{measured['cadmus_gflop_per_second']} GFLOP/s, {measured['cadmus_share_of_matmul']:.0%} of the "
        f"{measured['matmul_gflop_per_second']} of a product of matrices, in {measured['bits']} bits"
    )


@bench.command()
@click.option(
    "--programs",
    "count",
    type=WholeNumber(min=2_000),
    metavar="N",
    help="Programs of the training set; 80,200,000 by default, as in the paper.",
)
@_json_option
def batches(count: int | None, as_json: bool) -> None:
    """Time to prepare the batch of a training step.

    A batch is 1,024 of many random programs, taken and packed into rows of 96 tokens.

    \b
    Keys of the JSON object:
      programs, batch, repeats         of the training set; of a batch; batches that are measured
      milliseconds                     median time of a batch
      longest_milliseconds             longest time of a batch
      epoch_seconds                    time of the first batch of an epoch, which draws the epoch's order

    \b
    Examples:
      cadmus bench batches
      cadmus bench batches --json > docs/results/bench_batches.json
    """
    from cadmus.bench.batches import PROGRAMS, bench_batches

    measured = bench_batches(PROGRAMS if count is None else count)
    if as_json:
        click.echo(json.dumps(measured))
        return
    click.echo(
        f"{measured['milliseconds']:.2f} ms per batch of {measured['batch']:,} among "
        f"{measured['programs']:,} programs, {measured['longest_milliseconds']:.2f} ms at most; "
        f"{measured['epoch_seconds']:.1f} s for the first of an epoch"
    )


@bench.command()
@click.argument("model", type=EXISTING)
@_json_option
def decode(model: Path, as_json: bool) -> None:
    """Speed of completion by MODEL, beside transformers.

    Greedy completion by the export is compared with `generate` of transformers. Both complete the same
    held-out prompts of all templates in one batch, in fp32.

    \b
    Keys of the JSON object:
      parameters, programs, repeats, threads
      cadmus_programs_per_second, transformers_programs_per_second
      ratio                            the first by the second
      same_completions                 share of the prompts on which both wrote the same

    \b
    Examples:
      cadmus bench decode models/laptop
      cadmus bench decode models/laptop --json > docs/results/bench_decode.json
    """
    from cadmus.bench.decoding import bench_decode

    measured = bench_decode(model)
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name in ("cadmus", "transformers"):
        click.echo(f"{name:<14}{measured[f'{name}_programs_per_second']:>10,.1f} programs/s")
    click.echo(
        f"{measured['ratio']} times as fast, {measured['same_completions']:.2%} of {measured['programs']} "
        f"completions the same; {measured['threads']} threads, median of {measured['repeats']} repeats"
    )


@bench.command()
@click.argument("model", type=EXISTING)
@_json_option
def probe(model: Path, as_json: bool) -> None:
    """Speed of the probes on MODEL, beside scikit-learn.

    The probes are compared with LogisticRegression. Both fit X on the output of the final block, at each
    token and with each regularisation, on all cores.

    \b
    Keys of the JSON object:
      train_programs, tokens, regularisations, width, cores
      cadmus_seconds, scikit_learn_seconds
      ratio                            the second by the first
      cadmus_accuracy, scikit_learn_accuracy
                                       on test programs, the mean over the tokens
      mean_difference, largest_difference
                                       between the two accuracies at a token

    \b
    Examples:
      cadmus bench probe models/laptop
      cadmus bench probe models/laptop --json > docs/results/bench_probe.json
    """
    from cadmus.bench.probing import bench_probe

    measured = bench_probe(model)
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name in ("cadmus", "scikit_learn"):
        seconds, accuracy = measured[f"{name}_seconds"], measured[f"{name}_accuracy"]
        click.echo(f"{name.replace('_', '-'):<14}{seconds:>9,.1f} s{accuracy:>9.2%} right")
    click.echo(
        f"{measured['ratio']} times as fast, {measured['mean_difference']:.2%} apart at a token, "
        f"{measured['largest_difference']:.2%} at most; {measured['train_programs']} programs, "
        f"{measured['tokens']} tokens, {measured['regularisations']} regularisations, "
        f"{measured['cores']} cores"
    )


@bench.command("explore")
@model_option
@_json_option
def explore_command(directory: Path | None, as_json: bool) -> None:
    """How long the page of `cadmus explore` takes to answer.

    It is opened in a real browser, which needs Chromium and the package playwright. In the page it is the
    time from the last key to the picture, in which the page waits whether another key follows; on the
    server, that of the two requests behind it.

    \b
    Keys of the JSON object:
      instructions, programs           of each program, and how many of them
      server_milliseconds, server_longest
                                       median and longest time of the requests
      page_milliseconds, page_longest  the same from key to picture

    \b
    Example:
      cadmus bench explore --json > docs/results/bench_explore.json
    """
    from cadmus.bench.exploring import bench_explore

    measured = bench_explore(directory)
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name in ("server", "page"):
        typical, longest = measured[f"{name}_milliseconds"], measured[f"{name}_longest"]
        click.echo(f"{name:<8}{typical:>7,.1f} ms, {longest:,.1f} ms at most")
    click.echo(f"{measured['programs']} programs of {measured['instructions']} instructions")


@bench.command()
@_json_option
def start(as_json: bool) -> None:
    """How long the command line takes to start.

    A Python that does nothing is measured beside it.

    \b
    Keys of the JSON object:
      repeats                          repeats of each measurement, of which the medians are given
      python_seconds                   on the clock, of `python -c pass`
      import_seconds                   of `python -c 'import cadmus'`
      help_seconds                     of `cadmus --help`
      run_seconds                      of `cadmus run '34+7='`

    \b
    Examples:
      cadmus bench start
      cadmus bench start --json > docs/results/bench_start.json
    """
    from cadmus.bench.start import PROCESSES, bench_start

    measured = bench_start()
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name in PROCESSES:
        click.echo(f"{name:<8}{measured[f'{name}_seconds']:>8.3f} s")
    click.echo(f"median of {measured['repeats']} processes of each")


def _show_peers(what: str, figures: dict[str, float]) -> None:
    from cadmus.bench.programs import ELSEWHERE

    click.echo(f"\n{what}: {ELSEWHERE}")
    for name, figure in figures.items():
        click.echo(f"  {name:<40}{figure:>9.3g}")


COMMANDS = (bench,)
