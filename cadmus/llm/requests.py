"""The requests of a run, in the format of OpenAI's batch files, and the programs that they are about.

A request is known by the digest of its whole body, which is its ``custom_id`` as well: a reply cannot be
taken for that to another prompt, model or limit, whichever file it comes in.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cadmus.common.files import replacing
from cadmus.common.progress import progress
from cadmus.config import Config, Llm, digest
from cadmus.errors import InputError
from cadmus.evaluate.comparisons import HALF, grid_programs
from cadmus.evaluate.results import write_results
from cadmus.llm.models import URLS, LanguageModel

INDEX = "index.parquet"
"""What each request is about: one row each, in the order of the files of requests."""
_DIGEST = "prepared_from"


@dataclass(frozen=True)
class Condition:
    """What a model is asked in, and how many programs of each pair of values.

    Attributes:
        model, symbols, max_output_tokens: what is asked, how it is written, and the limit of the answer.
        in_grid: whether the answers are those of the comparison grid.
        programs_per_pair: how many programs of each pair of values.
    """

    model: LanguageModel
    symbols: str
    max_output_tokens: int
    in_grid: bool
    programs_per_pair: int


@dataclass(frozen=True)
class Request:
    """One question: its key, where it is sent, and what its body says."""

    key: str
    model: str
    max_output_tokens: int
    url: str
    body: dict[str, Any]

    def line(self) -> str:
        """Its line in a batch file."""
        line = {"custom_id": self.key, "method": "POST", "url": self.url, "body": self.body}
        return json.dumps(line, ensure_ascii=False) + "\n"


def key_of(url: str, body: dict[str, Any]) -> str:
    """The key of a request: 32 hexadecimal digits of all that is sent."""
    text = json.dumps([url, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def conditions(settings: Llm, models: Sequence[LanguageModel]) -> list[Condition]:
    """Everything that the models are asked in; alternate symbols only where a prompt explains them."""
    found = []
    for model in models:
        for symbols in settings.symbols:
            if model.endpoint == "completions" and symbols != "normal":
                continue
            for limit in sorted({*settings.max_output_tokens, settings.grid_max_output_tokens}):
                in_grid = limit == settings.grid_max_output_tokens
                counts = [settings.programs_per_pair] if limit in settings.max_output_tokens else []
                counts += [settings.grid_programs_per_pair] if in_grid else []
                found.append(Condition(model, symbols, limit, in_grid, max(counts)))
    return found


def prepare(config: Config, models: Sequence[LanguageModel], directory: Path) -> int:
    """Write the requests: a file of them for each model, named after it, and the index.

    The programs are those that Cadmus is asked about for the comparison grid, of which those with both values
    in the training range are taken.

    Returns:
        The number of requests.

    Raises:
        InputError: there is no program, or the files cannot be written.
    """
    grid = config.evaluate.grid
    x, y, programs, pair = grid_programs(
        grid.low, grid.high, grid.programs_per_pixel, config.dataset.eval_fraction, config.seed
    )
    values = config.dataset.values
    inside = (values.low <= x) & (x <= values.high) & (values.low <= y) & (y <= values.high)
    # The programs of a pair stand together.
    number = np.arange(len(pair)) - np.searchsorted(pair, pair)
    asked = pl.DataFrame(
        {"x": x[pair], "y": y[pair], "number": number, "program": programs.to_strings()}
    ).filter(inside[pair])
    if asked.is_empty():
        raise InputError(
            "evaluate.grid: no held-out comparison of the grid has both values in dataset.values, "
            f"{values.low} to {values.high}; widen the grid"
        )
    parts = []
    for model in models:
        with replacing(directory / f"{model.name}.jsonl") as temporary, temporary.open("w") as file:
            for condition in conditions(config.llm, [model]):
                rows = asked.filter(pl.col("number") < condition.programs_per_pair)
                keys = []
                for program in progress(f"requests to {model.name}", rows["program"]):
                    body = model.body(program[: 2 * HALF], condition.symbols, condition.max_output_tokens)
                    url = URLS[model.endpoint]
                    keys.append(key_of(url, body))
                    file.write(Request(keys[-1], model.name, condition.max_output_tokens, url, body).line())
                parts.append(
                    rows.select(
                        pl.lit(model.name).alias("model"),
                        pl.lit(condition.symbols).alias("symbols"),
                        pl.lit(condition.max_output_tokens).alias("max_output_tokens"),
                        pl.lit(condition.in_grid).alias("in_grid"),
                        pl.col("x", "y", "program"),
                        pl.Series("key", keys),
                    )
                )
    index = pl.concat(parts)
    write_results(index, directory / INDEX, {_DIGEST: prepared_from(config, models)})
    for path in directory.glob("*.jsonl"):
        if path.stem not in {model.name for model in models}:
            path.unlink()
    return len(index)


def prepared_from(config: Config, models: Sequence[LanguageModel]) -> str:
    """Sixteen hexadecimal digits of all in a config that decides what is asked."""
    llm = config.llm.model_dump(exclude={"max_cost_usd", "concurrency", "requests_per_minute"})
    sent = [model.body("", symbols, 0) for model in models for symbols in config.llm.symbols]
    dataset = config.dataset.model_dump(include={"values", "eval_fraction"})
    return digest([config.seed, dataset, config.evaluate.grid.model_dump(), llm, sent])


def read_index(config: Config, models: Sequence[LanguageModel], directory: Path) -> pl.DataFrame:
    """The index: model, symbols, max_output_tokens, in_grid, x, y, program and key of each request.

    Raises:
        InputError: nothing is prepared there, or from another config.
    """
    path = directory / INDEX
    again = "run `cadmus llm prepare`"
    if not path.is_file():
        raise InputError(f"{path}: no requests are prepared there; {again}")
    try:
        prepared = pl.read_parquet_metadata(path).get(_DIGEST)
        index = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        raise InputError(f"{path}: damaged; {again}") from None
    if prepared != prepared_from(config, models):
        raise InputError(
            f"{path}: prepared from another config, table of models or version of the prompt; {again}"
        )
    return index


def read_requests(index: pl.DataFrame, directory: Path) -> Iterator[Request]:
    """The requests of an index, in its order.

    Raises:
        InputError: a file of requests is missing, or was changed.
    """
    for (model,), rows in index.group_by("model", maintain_order=True):
        path = directory / f"{model}.jsonl"
        try:
            lines = path.read_text().splitlines()
            found = [json.loads(line) for line in lines]
        except (OSError, ValueError):
            found = []
        keys = [key_of(line["url"], line["body"]) for line in found]
        if keys != rows["key"].to_list():
            raise InputError(f"{path}: missing or changed; run `cadmus llm prepare`")
        for line, key, limit in zip(found, keys, rows["max_output_tokens"], strict=True):
            yield Request(key, model, limit, line["url"], line["body"])
