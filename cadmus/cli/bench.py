"""``cadmus bench``."""

import json

import click


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print one flat JSON object.")
def vm(as_json: bool) -> None:
    """Instructions a second of the compiled and of the readable machine, on one core.

    Number programs are uniform over digits, arithmetic and comparisons; the mixture is uniform over all
    instructions but the end. Each rate is the median of several repeats made now.

    \b
    Keys of the JSON object:
      program_length                 instructions in a program
      repeats                        repeats of each measurement
      number_programs                number programs that the compiled machine runs
      number_compiled_per_second     instructions a second, compiled machine, number programs
      number_reference_per_second    the same of the readable machine
      number_ratio                   compiled / reference
      mixture_programs, mixture_compiled_per_second, mixture_reference_per_second, mixture_ratio
                                     the same four on the mixture
    """
    from cadmus.bench import bench_vm

    measured = bench_vm()
    if as_json:
        click.echo(json.dumps(measured))
        return
    click.echo(f"{'instructions/s':<16}{'compiled':>12}{'reference':>12}{'ratio':>9}")
    for label, name in (("number programs", "number"), ("mixture", "mixture")):
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        click.echo(f"{label:<16}{compiled:>12.3g}{reference:>12.3g}{measured[f'{name}_ratio']:>9.1f}")
    click.echo(
        f"{measured['program_length']} instructions a program, median of {measured['repeats']} repeats"
    )


COMMANDS = (bench,)
