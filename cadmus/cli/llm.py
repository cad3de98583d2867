"""``cadmus llm``: the comparison with large language models, in steps that can be taken again at any time."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus.cli.options import DIRECTORY, PATH, check_results_path, config_option, echo_table, json_option
from cadmus.errors import InputError

if TYPE_CHECKING:
    from cadmus.llm.comparison import Comparison


@click.group()
def llm() -> None:
    """Put the comparison grid to large language models.

    The steps are prepare, estimate, submit, collect and score. Each can be taken again at any time: what is
    answered is not asked again. The config names the models (llm.models) of config/tables/llms.yaml.

    \b
    Examples:
      cadmus llm prepare --config config/mine.yaml
      cadmus llm estimate --config config/mine.yaml
      OPENAI_API_KEY=… cadmus llm submit --config config/mine.yaml
    """


def _step(command: Callable[..., None]) -> Callable[..., None]:
    """The options that all steps have."""
    for option in (
        click.option(
            "--table",
            type=PATH,
            metavar="FILE",
            help="A table of language models, in place of config/tables/llms.yaml.",
        ),
        click.option(
            "--directory",
            type=DIRECTORY,
            metavar="DIR",
            help="Where requests and replies lie; results/NAME/llm by default, NAME being that of the run.",
        ),
        config_option,
    ):
        command = option(command)
    return command


_only = click.option(
    "--model", "only", multiple=True, metavar="NAME", help="Only this model; again for another one."
)


@llm.command()
@_step
def prepare(config: Path, directory: Path | None, table: Path | None) -> None:
    """Write the requests to each model as a batch file.

    OpenAI and `vllm run-batch` take these files.

    \b
    Example:
      cadmus llm prepare --config config/mine.yaml
    """
    from cadmus.llm.requests import prepare

    run = _comparison(config, directory, table)
    number = prepare(run.config, run.models, run.requests)
    click.echo(f"{number:,} requests to {', '.join(run.names)} in {run.requests}")


@llm.command()
@_step
@json_option
def estimate(config: Path, directory: Path | None, table: Path | None, as_json: bool) -> None:
    """Say what the requests cost at most, and what was spent.

    \b
    Example:
      cadmus llm estimate --config config/mine.yaml
    """
    run = _comparison(config, directory, table).read()
    costs = run.costs()
    spent = sum(cost.spent_usd for cost in costs.values())
    most = sum(cost.usd for cost in costs.values())
    cap = run.config.llm.max_cost_usd
    if as_json:
        models = {name: {**asdict(cost), "model": cost.model.model} for name, cost in costs.items()}
        click.echo(json.dumps({"models": models, "usd": most, "max_cost_usd": cap}, indent=2))
        return
    rows: list[tuple[str, ...]] = [
        ("model", "requests", "settled", "under way", "to send", "spent", "in the end at most")
    ]
    for name, cost in costs.items():
        counts = (f"{n:,}" for n in (cost.requests, cost.settled, cost.awaited, cost.to_send))
        rows.append((name, *counts, f"{cost.spent_usd:.2f}", f"{cost.usd:.2f} USD"))
    echo_table(rows)
    click.echo(f"\n{spent:.2f} USD spent; at most {most:.2f} USD, every answer being as long as it may be")
    if most > cap:
        click.echo(f"that is above llm.max_cost_usd, {cap:g}: what could exceed it is not sent")


@llm.command()
@_step
@_only
def submit(config: Path, directory: Path | None, table: Path | None, only: tuple[str, ...]) -> None:
    """Send what is neither answered nor under way.

    It is sent as batches or one by one, as the table says. The key is that of OPENAI_API_KEY, the server
    OpenAI's or that of OPENAI_BASE_URL. Nothing is sent that could bring the cost above llm.max_cost_usd.
    Ctrl-C stops when the requests under way are answered.

    \b
    Examples:
      OPENAI_API_KEY=… cadmus llm submit --config config/mine.yaml
      OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=none cadmus llm submit --config config/mine.yaml
    """
    import openai

    from cadmus.llm import batches, client, costs, direct

    run = _comparison(config, directory, table).read()
    chosen = run.chosen(only)
    settings = client.options()
    with run.writing(chosen):
        costs.check_cap(run.costs(), chosen, run.config.llm.max_cost_usd)
        to_send = {name: run.to_send(name) for name in chosen}
        asked = [model for model in run.models if to_send.get(model.name)]
        if not asked:
            click.echo("nothing is left to send")
            return
        with openai.OpenAI(**settings) as official:
            where = client.server(official)
            for model in asked:
                run.check_server(model.name, where)
            client.check_models(official, {model.model for model in asked})
            click.echo(f"sending {sum(map(len, to_send.values())):,} requests to {where}")
            for model in asked:
                if model.transport == "batch":
                    for batch in batches.submit(official, to_send[model.name], run.replies[model.name]):
                        click.echo(f"{model.name}: batch {batch}")
        singly = [
            request for model in asked if model.transport == "direct" for request in to_send[model.name]
        ]
        if not singly:
            return
        outcome = direct.send(singly, run.replies, run.config.llm)
    click.echo(f"{outcome.answered:,} answered, {outcome.refused:,} refused, {outcome.failed:,} failed")
    left = len(singly) - outcome.answered - outcome.refused
    if outcome.stopped:
        raise InputError(f"stopped with {left:,} requests left; run it again to go on")
    if left:
        raise InputError(
            f"{left:,} of {len(singly):,} requests have no answer, the last failure being: "
            f"{outcome.last_failure}; run it again to send them once more"
        )


@llm.command()
@_step
@_only
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...")
@click.option("--wait", is_flag=True, help="Go on until all batches have ended.")
@click.option(
    "--every",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.01),
    metavar="SECONDS",
    help="Seconds between looks.",
)
def collect(
    config: Path,
    directory: Path | None,
    table: Path | None,
    only: tuple[str, ...],
    files: tuple[Path, ...],
    wait: bool,
    every: float,
) -> None:
    """Fetch the results of batches, or take them from each FILE.

    A FILE is what `vllm run-batch` wrote. Lines are matched by what they are answers to, never by their
    order. What a batch left unanswered is sent again by the next submit.

    \b
    Examples:
      cadmus llm collect --config config/mine.yaml --wait
      cadmus llm collect --config config/mine.yaml results.jsonl
    """
    run = _comparison(config, directory, table).read()
    chosen = run.chosen(only)
    if files:
        with run.writing(chosen):
            for file in files:
                _tell_lines(str(file), run.take_file(file, chosen))
        return
    import openai

    from cadmus.llm import batches, client

    if not any(run.replies[name].batches for name in chosen):
        click.echo("no batch is under way")
        return
    told: dict[str, str] = {}
    with run.writing(chosen), openai.OpenAI(**client.options()) as official:
        while True:
            for name in chosen:
                lines, states = batches.collect(official, run.by_key[name], run.replies[name])
                for batch, state in states.items():
                    if told.get(batch) != state:
                        click.echo(f"{name}: batch {batch}: {state}")
                told |= states
                _tell_lines(name, lines)
            if not wait or not any(run.replies[name].batches for name in chosen):
                break
            time.sleep(every)
    unanswered = sum(len(run.to_send(name)) for name in chosen)
    if unanswered and wait:
        raise InputError(f"{unanswered:,} requests have no answer; `cadmus llm submit` sends them once more")


@llm.command()
@_step
@click.option("--output", type=PATH, required=True, metavar="FILE", help="Parquet file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON list.")
def score(config: Path, directory: Path | None, table: Path | None, output: Path, as_json: bool) -> None:
    """Grade the answers by execution.

    What was not answered is told apart.

    \b
    Example:
      cadmus llm score --config config/mine.yaml --output llm.parquet
    """
    from cadmus.common.provenance import commit
    from cadmus.config import digest
    from cadmus.evaluate.results import write_results
    from cadmus.llm.outcomes import OUTCOMES, summary
    from cadmus.llm.score import score

    check_results_path(output)
    run = _comparison(config, directory, table).read()
    answers = score(run.index, run.by_key, run.replies, run.models)
    metadata = {
        "config_digest": digest(run.config.model_dump()),
        "commit": commit(),
        "servers": ", ".join(
            sorted({where for replies in run.replies.values() for where in replies.servers})
        ),
    }
    write_results(answers, output, metadata)
    if as_json:
        click.echo(json.dumps(summary(answers).to_dicts(), indent=2))
        return
    rows: list[tuple[str, ...]] = [
        ("model", "symbols", "tokens", "accuracy", *OUTCOMES, "output tokens", "USD")
    ]
    for row in summary(answers).iter_rows(named=True):
        accuracy = f"{100 * row['correct'] / row['programs']:.1f} %" if row["programs"] else "not run"
        tokens = "" if row["output_tokens"] is None else f"{row['output_tokens']:.0f}"
        condition = (row["model"], row["symbols"], f"{row['max_output_tokens']:,}")
        rows.append(
            (*condition, accuracy, *(f"{row[name]:,}" for name in OUTCOMES), tokens, f"{row['usd']:.2f}")
        )
    echo_table(rows)


@llm.command()
def prompts() -> None:
    """Print the prompts in both kinds of symbols: docs/llm-prompts.md.

    \b
    Example:
      cadmus llm prompts > docs/llm-prompts.md
    """
    from cadmus.llm.prompt import document

    click.echo(document(), nl=False)


def _comparison(config: Path, directory: Path | None, table: Path | None) -> "Comparison":
    from cadmus.config import load_config
    from cadmus.llm.comparison import Comparison

    return Comparison(load_config(config), directory, table)


_LINES = {
    "answers": "answers",
    "errors": "errors",
    "repeated": "repeated",
    "strangers": "to no request of this run",
    "malformed": "malformed",
    "unanswered": "requests left unanswered",
}
"""What the lines of results were, and how it is told."""


def _tell_lines(name: str, lines: Mapping[str, int]) -> None:
    counts = [f"{lines[what]:,} {told}" for what, told in _LINES.items() if lines.get(what)]
    if counts:
        click.echo(f"{name}: {', '.join(counts)}")


COMMANDS = (llm,)
