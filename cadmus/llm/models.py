"""The table of large language models, ``config/llms.tsv``, and what each of them is asked in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cadmus.common.files import read_table
from cadmus.errors import InputError, suggest
from cadmus.llm.prompt import prompt

MODELS = Path(__file__).parents[2] / "config" / "llms.tsv"
"""The table of a checkout."""
COLUMNS = (
    "name",
    "model",
    "endpoint",
    "transport",
    "reasoning_effort",
    "usd_per_million_input",
    "usd_per_million_output",
    "source",
)
URLS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "completions": "/v1/completions"}
"""The endpoints and where they lie."""
TRANSPORTS = ("batch", "direct")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class LanguageModel:
    """One row of the table.

    Attributes:
        name: in configs, figures and file names.
        model: what the server calls it.
        endpoint: a key of ``URLS``.
        transport: one of ``TRANSPORTS``.
        reasoning_effort: as the server knows it, its default when empty.
        usd_per_million_input, usd_per_million_output: price of a million tokens.
    """

    name: str
    model: str
    endpoint: str
    transport: str
    reasoning_effort: str
    usd_per_million_input: float
    usd_per_million_output: float

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """The price of so many tokens."""
        cost = input_tokens * self.usd_per_million_input + output_tokens * self.usd_per_million_output
        return cost / 1e6

    def body(self, program: str, symbols: str, max_output_tokens: int) -> dict[str, Any]:
        """The body of the request for the comparator behind ``program``, which is in normal symbols."""
        effort = self.reasoning_effort
        if self.endpoint == "completions":
            return {"model": self.model, "prompt": program, "max_tokens": max_output_tokens, "temperature": 0}
        question = prompt(program, symbols)
        if self.endpoint == "responses":
            body = {"model": self.model, "input": question, "max_output_tokens": max_output_tokens}
            return body | ({"reasoning": {"effort": effort}} if effort else {})
        messages = [{"role": "user", "content": question}]
        body = {"model": self.model, "messages": messages, "max_completion_tokens": max_output_tokens}
        return body | ({"reasoning_effort": effort} if effort else {})


def read_models(path: Path, names: Sequence[str]) -> list[LanguageModel]:
    """The rows of a table that have these names, in their order.

    Raises:
        InputError: as :func:`cadmus.common.files.read_table`; a row is wrong, a name comes twice, or a name
            has no row.
    """
    found: dict[str, LanguageModel] = {}
    for row in read_table(path, COLUMNS, "language models"):
        name = row["name"]
        place = f"{path}: {name}"
        if not _NAME.fullmatch(name):
            raise InputError(f"{path}: {name!r} is no name: letters, digits, dots, _ and - make one")
        if name in found:
            raise InputError(f"{place}: comes twice")
        if not row["model"]:
            raise InputError(f"{place}: model: what the server calls it should stand here")
        for column, valid in (("endpoint", tuple(URLS)), ("transport", TRANSPORTS)):
            if row[column] not in valid:
                raise InputError(f"{place}: {column}: {row[column]!r} is none of {', '.join(valid)}")
        found[name] = LanguageModel(
            name,
            row["model"],
            row["endpoint"],
            row["transport"],
            row["reasoning_effort"],
            *(_price(place, column, row[column]) for column in COLUMNS if column.startswith("usd")),
        )
    for name in names:
        if name not in found:
            raise InputError(f"llm.models: no model {name!r} in {path}; {suggest(name, found)}")
    return [found[name] for name in names]


def _price(place: str, column: str, text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise InputError(f"{place}: {column}: a price in USD should stand here, not {text!r}")
    return price
