"""``cadmus llm``: large language models on the comparison."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cadmus.cli import options
from cadmus.config import Config, digest, load_config
from cadmus.errors import InputError
from cadmus.evaluate.intervals import percent
from cadmus.llm.models import MODELS, LanguageModel, read_models
from cadmus.store import write_parquet

Models = dict[str, LanguageModel]


@click.group()
def llm() -> None:
    """Ask large language models to compare.

    The config names the models (llm.models), and config/tables/llms.yaml describes them. Inspect asks them;
    `inspect view` shows every reply.

    \b
    Examples:
      cadmus llm estimate --config config/mine.yaml
      OPENAI_API_KEY=… cadmus llm ask --config config/mine.yaml
      cadmus llm score --config config/mine.yaml --output llm.parquet
    """


def _step(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every step, which the command gets as a config, models and a directory."""

    @functools.wraps(command)
    def with_models(
        config: Path,
        changes: dict[str, Any],
        directory: Path | None,
        table: Path | None,
        only: tuple[str, ...],
        **others: Any,
    ) -> None:
        run = load_config(config, changes)
        if not run.llm.models:
            raise InputError(f"{config}: llm.models: names no model")
        models = read_models(table or MODELS, only or run.llm.models)
        command(run, models, directory or Path("results", run.name, "llm"), **others)

    where = "Directory of replies and logs; results/NAME/llm by default, for the run NAME."
    table = "Table of language models; config/tables/llms.yaml by default."
    add_options = options.with_options(
        options.config_option,
        options.changes_option,
        click.option("--directory", type=options.DIRECTORY, metavar="DIR", help=where),
        click.option("--table", type=options.PATH, help=table),
        click.option("--model", "only", multiple=True, metavar="NAME", help="Only this model; repeatable."),
    )
    return add_options(with_models)


@llm.command()
@_step
def estimate(config: Config, models: Models, directory: Path) -> None:
    """Print the questions and their maximum cost.

    \b
    Example:
      cadmus llm estimate --config config/mine.yaml
    """
    from cadmus.llm.questions import most_usd, questions

    rows: list[dict[str, Any]] = []
    for name, model in models.items():
        to_ask = questions(config, model)
        rows.append({"model": name, "questions": len(to_ask), "usd": most_usd(model, to_ask)})
    cells = [[row["model"], f"{row['questions']:,}", f"{row['usd']:.2f} USD"] for row in rows]
    options.echo_table([["model", "questions", "costs at most"], *cells])
    click.echo(f"\nat most {sum(row['usd'] for row in rows):.2f} USD, if every answer reaches its limit")


@llm.command()
@_step
def ask(config: Config, models: Models, directory: Path) -> None:
    """Ask the models what they have not answered yet.

    Nothing is sent if the answers could cost more than llm.max_cost_usd. Every reply is kept: after an
    interruption the command asks only for the rest.

    \b
    Example:
      OPENAI_API_KEY=… cadmus llm ask --config config/mine.yaml
    """
    from cadmus.llm.task import ask

    ask(config, models, directory, options.echo)


@llm.command()
@_step
@options.results_option
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON list.")
def score(config: Config, models: Models, directory: Path, output: Path, as_json: bool) -> None:
    """Grade the answers.

    \b
    Example:
      cadmus llm score --config config/mine.yaml --output llm.parquet
    """
    from cadmus.llm.outcomes import OUTCOMES, summary
    from cadmus.llm.task import read

    answers = read(config, models, directory)
    write_parquet(output, "results", answers, {"config_digest": digest(config.model_dump())})
    counts = summary(answers)
    if as_json:
        click.echo(json.dumps(counts.to_dicts(), indent=2))
        return
    rows = [("model", "alphabet", "shots", "programs", "tokens", "accuracy", *OUTCOMES, "in", "out", "USD")]
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
                *(f"{row[name]:,}" for name in OUTCOMES),
                *("" if mean is None else f"{mean:.0f}" for mean in means),
                f"{row['usd']:.2f}",
            )
        )
    options.echo_table(rows)


@llm.command()
def prompts() -> None:
    """Print a prompt in each alphabet.

    \b
    Example:
      cadmus llm prompts
    """
    from cadmus.evaluate.prompts import SYMBOLS, prompt

    for name in SYMBOLS:
        click.echo(f"--- {name} ---\n{prompt('62*4+54*4-', name)}\n")
