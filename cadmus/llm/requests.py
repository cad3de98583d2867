"""Requests of a comparison, in the format of OpenAI's batch files, and the programs that they are about.

The key of a request, which is also its ``custom_id``, is a digest of the whole body. So no reply is ever
matched to another prompt, model or limit, whichever file it comes in.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from cadmus import store
from cadmus.config import Config, Llm, digest
from cadmus.errors import InputError, reading
from cadmus.evaluate.comparisons import HALF, grid_programs
from cadmus.llm.models import URLS, LanguageModel
from cadmus.tools import progress

INDEX = "index.parquet"
"""One row per request, in the order of the request files."""
_DIGEST = "prepared_from"
_UNSENT = {"max_cost_usd", "concurrency", "requests_per_minute"}
"""Fields of ``llm`` that do not change the requests."""


class _Line(BaseModel):
    """A line of a file of requests."""

    model_config = ConfigDict(strict=True)

    custom_id: str
    url: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request: its key, the name of the model, the token limit, the endpoint and the body."""

    key: str
    model: str
    max_output_tokens: int
    url: str
    body: dict[str, Any]

    def line(self) -> str:
        """Return the line of a batch file."""
        line = {"custom_id": self.key, "method": "POST", "url": self.url, "body": self.body}
        return json.dumps(line, ensure_ascii=False) + "\n"


def key_of(url: str, body: dict[str, Any]) -> str:
    """Return the key of a request: 32 hexadecimal digits of a digest of everything that is sent."""
    text = json.dumps([url, body], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def conditions(settings: Llm, model: LanguageModel) -> Iterator[tuple[str, int, bool, int]]:
    """Yield symbols, token limit, True for the comparison grid, and programs per pair of each condition."""
    for symbols in settings.symbols:
        # Without a prompt, nothing explains alternate symbols.
        if model.endpoint == "completions" and symbols != "normal":
            continue
        for limit in sorted({*settings.max_output_tokens, settings.grid_max_output_tokens}):
            in_grid = limit == settings.grid_max_output_tokens
            counts = [settings.programs_per_pair] if limit in settings.max_output_tokens else []
            counts += [settings.grid_programs_per_pair] if in_grid else []
            yield symbols, limit, in_grid, max(counts)


def prepare(config: Config, models: Sequence[LanguageModel], directory: Path) -> int:
    """Write the index and one file of requests per model, all or none.

    The programs are those of Cadmus's own comparison grid with both values in the training range. Files of
    models that the last index has and this one lacks are removed; other files are left alone.

    Returns:
        The number of requests.

    Raises:
        InputError: no program qualifies, a file of requests has other contents than Cadmus writes, or a file
            cannot be written.
    """
    grid = config.evaluate.grid
    x, y, programs, pair = grid_programs(
        grid.low, grid.high, grid.programs_per_pixel, config.dataset.eval_fraction, config.seed
    )
    values = config.dataset.values
    inside = (values.low <= x) & (x <= values.high) & (values.low <= y) & (y <= values.high)
    # The programs of a pair are adjacent.
    number = np.arange(len(pair)) - np.searchsorted(pair, pair)
    asked = pl.DataFrame(
        {"x": x[pair], "y": y[pair], "number": number, "program": programs.to_strings()}
    ).filter(inside[pair])
    if asked.is_empty():
        raise InputError(
            "evaluate.grid: has no test comparison with both values in dataset.values, "
            f"{values.low} to {values.high}; widen the grid"
        )
    for model in models:
        path = directory / f"{model.name}.jsonl"
        if path.exists() and not _is_ours(path):
            raise InputError(f"{path}: was not written by `cadmus llm prepare`; move it away")
    former = _models_of(directory / INDEX)
    parts = []
    with store.replacing_together() as replacing:
        for model in models:
            url = URLS[model.endpoint]
            with replacing(directory / f"{model.name}.jsonl").open("w") as file:
                for symbols, limit, in_grid, programs_per_pair in conditions(config.llm, model):
                    rows = asked.filter(pl.col("number") < programs_per_pair)
                    keys = []
                    for program in progress(f"requests to {model.name}", rows["program"]):
                        body = model.body(program[: 2 * HALF], symbols, limit)
                        keys.append(key_of(url, body))
                        file.write(Request(keys[-1], model.name, limit, url, body).line())
                    condition = {"symbols": symbols, "max_output_tokens": limit, "in_grid": in_grid}
                    parts.append(
                        rows.select(
                            *(
                                pl.lit(value).alias(name)
                                for name, value in {"model": model.name, **condition}.items()
                            ),
                            pl.col("x", "y", "program"),
                            pl.Series("key", keys),
                        )
                    )
        index = pl.concat(parts)
        store.write_parquet(directory / INDEX, "requests", index, {_DIGEST: prepared_from(config, models)})
    for name in former - {model.name for model in models}:
        path = directory / f"{name}.jsonl"
        if path.is_file() and _is_ours(path):
            path.unlink()
    return len(index)


def _is_ours(path: Path) -> bool:
    """Return True if every line of a file is a request with the key that Cadmus gives it."""
    try:
        return all(line.custom_id == key_of(line.url, line.body) for line in _read_lines(path))
    except InputError:
        return False


def _models_of(path: Path) -> set[str]:
    """Return the models of an index; none if there is none, or it is damaged."""
    try:
        index, _ = store.read_parquet(path, "requests")
    except InputError:
        return set()
    return set(index["model"])


def prepared_from(config: Config, models: Sequence[LanguageModel]) -> str:
    """Return 16 hexadecimal digits of a digest of everything that decides the requests."""
    sent = [model.body("", symbols, 0) for model in models for symbols in config.llm.symbols]
    dataset = config.dataset.model_dump(include={"values", "eval_fraction"})
    llm = config.llm.model_dump(exclude=_UNSENT)
    return digest([config.seed, dataset, config.evaluate.grid.model_dump(), llm, sent])


def read_index(config: Config, models: Sequence[LanguageModel], directory: Path) -> pl.DataFrame:
    """Read the index: model, symbols, max_output_tokens, in_grid, x, y, program and key of each request.

    Raises:
        InputError: there is none, or it was prepared from another config.
    """
    path = directory / INDEX
    again = "run `cadmus llm prepare`"
    if not path.is_file():
        raise InputError(f"{path}: no requests are prepared there; {again}")
    index, metadata = store.read_parquet(path, "requests")
    if metadata[_DIGEST] != prepared_from(config, models):
        raise InputError(f"{path}: prepared from another config, model table or prompt; {again}")
    return index


def read_requests(index: pl.DataFrame, directory: Path) -> Iterator[Request]:
    """Yield the requests of an index, in its order.

    Raises:
        InputError: a file of requests is missing or was changed.
    """
    for (model,), rows in index.group_by("model", maintain_order=True):
        path = directory / f"{model}.jsonl"
        try:
            found = _read_lines(path)
        except InputError:
            found = []
        keys = [key_of(line.url, line.body) for line in found]
        if keys != rows["key"].to_list():
            raise InputError(f"{path}: missing or changed; run `cadmus llm prepare`")
        for line, key, limit in zip(found, keys, rows["max_output_tokens"], strict=True):
            yield Request(key, model, limit, line.url, line.body)


def _read_lines(path: Path) -> list[_Line]:
    """Read a file of requests.

    Raises:
        InputError: it is missing or damaged.
    """
    with reading(path):
        return [
            _Line.model_validate(json.loads(line))
            for line in path.read_text(encoding="utf-8").split("\n")
            if line
        ]
