"""``cadmus-llm``: large language models on the comparison."""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from cadmus.cli import options
from cadmus.config import Config, digest
from cadmus.errors import InputError
from cadmus.evaluate.statistics.intervals import percent
from cadmus.store import write_parquet
from cadmus_llm.figures import FIGURES
from cadmus_llm.models import MODELS, LanguageModel, read_models
from cadmus_llm.settings import Settings, read_settings

Models = dict[str, LanguageModel]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def llm() -> None:
    """Ask large language models to compare.

    The config names the models, and a table describes them. Inspect asks them; `inspect view` shows every
    reply.

    \b
    Examples:
      cadmus-llm estimate --config llm.yaml
      OPENAI_API_KEY=… cadmus-llm ask --config llm.yaml
      cadmus-llm score --config llm.yaml --output llm.parquet
    """


def _step(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every step, which the command gets as settings, a run, models and a directory."""

    @functools.wraps(command)
    def with_models(
        config: Path,
        changes: dict[str, Any],
        directory: Path | None,
        table: Path | None,
        only: tuple[str, ...],
        **others: Any,
    ) -> None:
        settings, run = read_settings(config, changes)
        models = read_models(table or MODELS, only or settings.models)
        command(settings, run, models, directory or Path("results", run.name, "llm"), **others)

    where = "Directory of replies and logs; results/NAME/llm by default, for the run NAME."
    table = "Table of language models; models.yaml of the package by default."
    add_options = options.with_options(
        click.option("--config", type=options.PATH, required=True, help="Config of the questions."),
        options.changes_option,
        click.option("--directory", type=options.DIRECTORY, metavar="DIR", help=where),
        click.option("--table", type=options.PATH, help=table),
        click.option("--model", "only", multiple=True, metavar="NAME", help="Only this model; repeatable."),
    )
    return add_options(with_models)


@llm.command()
@_step
def estimate(settings: Settings, run: Config, models: Models, directory: Path) -> None:
    """Print the questions and their maximum cost.

    \b
    Example:
      cadmus-llm estimate --config llm.yaml
    """
    from cadmus_llm.questions import most_usd, questions

    rows: list[dict[str, Any]] = []
    for name, model in models.items():
        to_ask = questions(settings, run, model)
        rows.append({"model": name, "questions": len(to_ask), "usd": most_usd(model, to_ask)})
    cells = [[row["model"], f"{row['questions']:,}", f"{row['usd']:.2f} USD"] for row in rows]
    options.echo_table([["model", "questions", "costs at most"], *cells])
    click.echo(f"\nat most {sum(row['usd'] for row in rows):.2f} USD, if every answer reaches its limit")


@llm.command()
@_step
def ask(settings: Settings, run: Config, models: Models, directory: Path) -> None:
    """Ask the models what they have not answered yet.

    Nothing is sent if the answers could cost more than max_cost_usd. Every reply is kept: after an
    interruption the command asks only for the rest.

    \b
    Example:
      OPENAI_API_KEY=… cadmus-llm ask --config llm.yaml
    """
    from cadmus_llm.task import ask

    ask(settings, run, models, directory, options.echo)


@llm.command()
@_step
@options.results_option
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON list.")
def score(
    settings: Settings, run: Config, models: Models, directory: Path, output: Path, as_json: bool
) -> None:
    """Grade the answers.

    \b
    Example:
      cadmus-llm score --config llm.yaml --output llm.parquet
    """
    from cadmus_llm.outcomes import OUTCOMES, summary
    from cadmus_llm.task import read

    answers = read(settings, run, models, directory)
    write_parquet(output, "results", answers, {"config_digest": digest(run.model_dump())})
    counts = summary(answers)
    if as_json:
        click.echo(json.dumps(counts.to_dicts(), indent=2))
        return
    heads = ["model", "alphabet", "shots", "programs", "tokens", "accuracy", "unreadable", *OUTCOMES]
    rows = [(*heads, "in", "out", "USD")]
    for row in counts.iter_rows(named=True):
        means = row["input_tokens"], row["output_tokens"]
        rows.append(
            (
                row["model"],
                row["alphabet"],
                f"{row['shots']}",
                "grid" if row["in_grid"] else "balanced",
                f"{row['max_output_tokens']:,}",
                percent(row["correct"] / row["programs"]) if row["programs"] else "not run",
                percent(row["unreadable"]) if row["programs"] else "",
                *(f"{row[name]:,}" for name in OUTCOMES),
                *("" if mean is None else f"{mean:.0f}" for mean in means),
                f"{row['usd']:.2f}",
            )
        )
    options.echo_table(rows)


@llm.command()
@click.argument("names", nargs=-1, required=True, type=click.Choice(list(FIGURES)))
@click.option("--grid", type=options.PATH, required=True, help="Results of `cadmus evaluate grid`.")
@click.option("--answers", type=options.PATH, required=True, help="Results of `cadmus-llm score`.")
@click.option("--output", type=options.DIRECTORY, required=True, metavar="DIR", help="Directory of figures.")
def draw(names: tuple[str, ...], grid: Path, answers: Path, output: Path) -> None:
    """Draw the accuracy by output tokens or by the compared values, next to that of Cadmus.

    \b
    Example:
      cadmus-llm draw output_tokens llm_grid --grid grid.parquet --answers llm.parquet --output figures
    """
    from cadmus import experiments
    from cadmus.experiments.drawing import render
    from cadmus_llm.outcomes import TABLE

    for name in names:
        tables = [experiments.table("grid"), TABLE]
        for path in render(FIGURES[name], tables, [grid, answers], output):
            options.echo(path)


@llm.command()
def prompts() -> None:
    """Print a prompt in each alphabet.

    \b
    Example:
      cadmus-llm prompts
    """
    from cadmus.evaluate.prompts.language_models import SYMBOLS, prompt

    for name in SYMBOLS:
        click.echo(f"--- {name} ---\n{prompt('62*4+54*4-', name)}\n")


def main() -> None:
    """Run the command line; bad input is one line."""
    try:
        llm(prog_name="cadmus-llm")
    except ModuleNotFoundError as error:
        fix = "pip install --editable integrations/llm"
        _exit(f"needs {error.name}, which is not installed; {fix}")
    except InputError as error:
        _exit(str(error))


def _exit(message: str) -> NoReturn:
    options.echo(f"cadmus-llm: error: {message}", err=True)
    sys.exit(2)
