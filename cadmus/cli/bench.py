"""``cadmus bench``."""

import json

import click


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print what is measured as one flat JSON object.")
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
    """
    from cadmus.bench import PEER_CANDIDATES, PEER_INSTRUCTIONS, bench_vm

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
@click.option("--json", "as_json", is_flag=True, help="Print what is measured as one flat JSON object.")
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
    """
    from cadmus.bench import PEER_SAMPLES, bench_templates
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


def _show_peers(what: str, figures: dict[str, float]) -> None:
    from cadmus.bench import ELSEWHERE

    click.echo(f"\n{what}: {ELSEWHERE}")
    for name, figure in figures.items():
        click.echo(f"  {name:<40}{figure:>9.3g}")


COMMANDS = (bench,)
