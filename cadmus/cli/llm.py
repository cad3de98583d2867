"""``cadmus llm``: the comparison with large language models, in steps that can be repeated."""

import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cadmus.cli.options import (
    DIRECTORY,
    PATH,
    check_results_path,
    config_option,
    echo,
    echo_table,
    json_option,
    with_options,
)
from cadmus.config import digest, load_config
from cadmus.errors import InputError
from cadmus.evaluate.intervals import percent
from cadmus.llm.comparison import Comparison
from cadmus.store import write_parquet


@click.group()
def llm() -> None:
    """Ask large language models about the comparison grid.

    The steps are prepare, estimate, submit, collect and score. Each can be repeated: answered requests are
    not sent again. The config names the models (llm.models), and config/tables/llms.yaml describes them.

    \b
    Examples:
      cadmus llm prepare --config config/mine.yaml
      cadmus llm estimate --config config/mine.yaml
      OPENAI_API_KEY=… cadmus llm submit --config config/mine.yaml
    """


def _step(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every step, from which the command gets its first argument, the comparison."""

    @functools.wraps(command)
    def with_comparison(config: Path, directory: Path | None, table: Path | None, **options: Any) -> None:
        command(Comparison(load_config(config), directory, table), **options)

    where = "Directory of requests and replies; results/NAME/llm by default, for the run NAME."
    models = "Table of language models; config/tables/llms.yaml by default."
    add_options = with_options(
        config_option,
        click.option("--directory", type=DIRECTORY, metavar="DIR", help=where),
        click.option("--table", type=PATH, help=models),
    )
    return add_options(with_comparison)


_only = click.option("--model", "only", multiple=True, metavar="NAME", help="Only this model; repeatable.")


@llm.command()
@_step
def prepare(run: Comparison) -> None:
    """Write the requests to each model as a batch file.

    OpenAI and `vllm run-batch` take these files.

    \b
    Example:
      cadmus llm prepare --config config/mine.yaml
    """
    from cadmus.llm.requests import prepare

    directory = run.directory / "requests"
    number = prepare(run.config, run.models, directory)
    echo(f"{number:,} requests to {', '.join(run.names)} in {directory}")


@llm.command()
@_step
@json_option
def estimate(run: Comparison, as_json: bool) -> None:
    """Print the maximum cost of the requests, and the cost so far.

    \b
    Example:
      cadmus llm estimate --config config/mine.yaml
    """
    costs = run.costs()
    spent = sum(cost.spent_usd for cost in costs.values())
    most = sum(cost.usd for cost in costs.values())
    cap = run.config.llm.max_cost_usd
    if as_json:
        models = {name: {**asdict(cost), "model": cost.model.model} for name, cost in costs.items()}
        click.echo(json.dumps({"models": models, "usd": most, "max_cost_usd": cap}, indent=2))
        return
    rows = [["model", "requests", "settled", "malformed", "under way", "to send", "spent", "total at most"]]
    for name, cost in costs.items():
        counts = (cost.requests, cost.settled, cost.malformed, cost.awaited, cost.to_send)
        rows.append([name, *(f"{n:,}" for n in counts), f"{cost.spent_usd:.2f}", f"{cost.usd:.2f} USD"])
    echo_table(rows)
    click.echo(f"\n{spent:.2f} USD spent; at most {most:.2f} USD in total, if every answer reaches its limit")
    if most > cap:
        click.echo(f"above llm.max_cost_usd, {cap:g} USD: submit sends nothing that could exceed it")
    _echo_malformed(run, run.names)


@llm.command()
@_step
@_only
@click.option(
    "--again",
    type=click.Choice(["malformed"]),
    metavar="KIND",
    help="Resend the requests whose reply is of this kind: malformed. They are charged again.",
)
def submit(run: Comparison, only: tuple[str, ...], again: str | None) -> None:
    """Send all requests that are neither answered nor under way.

    The table of models says whether to send batches or single requests. OPENAI_API_KEY is the key;
    OPENAI_BASE_URL is the server, if it is not OpenAI's. No request is sent that could bring the cost above
    llm.max_cost_usd. Every reply is stored; requests with a malformed one are resent only with --again.

    On Ctrl-C or SIGTERM the command waits for the requests under way and exits with code 1. A second signal
    ends it at once.

    \b
    Examples:
      OPENAI_API_KEY=… cadmus llm submit --config config/mine.yaml
      OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=none cadmus llm submit --config config/mine.yaml
    """
    from cadmus.llm.submit import submit

    run.again = again == "malformed"
    try:
        submit(run, only, echo)
    finally:
        # Unless it failed before it read them.
        if "requests" in vars(run):
            _echo_malformed(run, run.chosen(only))


@llm.command()
@_step
@_only
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...")
@click.option("--wait", is_flag=True, help="Wait until all batches have ended.")
@click.option(
    "--every", default=30.0, type=click.FloatRange(0.01), metavar="SECONDS", help="Seconds between polls."
)
def collect(
    run: Comparison, only: tuple[str, ...], files: tuple[Path, ...], wait: bool, every: float
) -> None:
    """Fetch the results of batches, or read them from each FILE.

    A FILE is an output of `vllm run-batch`. Its lines may be in any order. The next submit resends what a
    batch left unanswered.

    \b
    Examples:
      cadmus llm collect --config config/mine.yaml --wait
      cadmus llm collect --config config/mine.yaml results.jsonl
    """
    chosen = run.chosen(only)
    if files:
        with run.writing(chosen):
            for file in files:
                _echo_lines(str(file), run.take_file(file, chosen))
        _echo_malformed(run, chosen)
        return

    def under_way() -> bool:
        return any(run.replies[name].batches for name in chosen)

    if not under_way():
        click.echo("no batch is under way")
        return
    from cadmus.llm import batches
    from cadmus.llm.client import connect

    shown: dict[str, str] = {}
    with connect() as client, run.writing(chosen):
        while True:
            for name in chosen:
                lines, states = batches.collect(client, run, name)
                for batch, state in states.items():
                    if shown.get(batch) != state:
                        echo(f"{name}: batch {batch}: {state}")
                shown |= states
                _echo_lines(name, lines)
            if not wait or not under_way():
                break
            time.sleep(every)
    _echo_malformed(run, chosen)
    unanswered = sum(len(run.to_send(name)) for name in chosen)
    if unanswered and wait:
        raise InputError(f"{unanswered:,} requests have no answer; `cadmus llm submit` resends them")


@llm.command()
@_step
@click.option("--output", type=PATH, required=True, help="Parquet file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON list.")
def score(run: Comparison, output: Path, as_json: bool) -> None:
    """Grade the answers by execution.

    Unanswered requests are counted separately.

    \b
    Example:
      cadmus llm score --config config/mine.yaml --output llm.parquet
    """
    from cadmus.llm.outcomes import OUTCOMES, summary
    from cadmus.llm.score import score

    check_results_path(output)
    answers = score(run)
    metadata = {
        "config_digest": digest(run.config.model_dump()),
        "servers": ", ".join(sorted(set().union(*(replies.servers for replies in run.replies.values())))),
    }
    write_parquet(output, "results", answers, metadata)
    if as_json:
        click.echo(json.dumps(summary(answers).to_dicts(), indent=2))
        return
    rows = [["model", "symbols", "tokens", "accuracy", *OUTCOMES, "output tokens", "USD"]]
    for row in summary(answers).iter_rows(named=True):
        accuracy = percent(row["correct"] / row["programs"]) if row["programs"] else "not run"
        counts = (f"{row[name]:,}" for name in OUTCOMES)
        tokens = "" if row["output_tokens"] is None else f"{row['output_tokens']:.0f}"
        limit = f"{row['max_output_tokens']:,}"
        rows.append([row["model"], row["symbols"], limit, accuracy, *counts, tokens, f"{row['usd']:.2f}"])
    echo_table(rows)


@llm.command()
def prompts() -> None:
    """Print example prompts in both kinds of symbols.

    The output is docs/llm-prompts.md.

    \b
    Example:
      cadmus llm prompts > docs/llm-prompts.md
    """
    from cadmus.llm.prompt import document

    click.echo(document(), nl=False)


def _echo_malformed(run: Comparison, names: Sequence[str]) -> None:
    """Tell about replies that have no known shape, and damaged lines."""
    for name in names:
        replies = run.replies[name]
        if number := len(replies.malformed(run.requests[name])):
            again = "`cadmus llm submit --again malformed` asks again and pays again"
            echo(f"{name}: {number:,} malformed, kept in {replies.path}; {again}")
        if replies.damaged:
            echo(f"{replies.path}: damaged lines skipped: {replies.damaged:,}")


def _echo_lines(name: str, lines: Mapping[str, int]) -> None:
    if counts := [f"{number:,} {kind}" for kind, number in lines.items() if number]:
        echo(f"{name}: {', '.join(counts)}")
