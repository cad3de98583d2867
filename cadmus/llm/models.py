"""Large language models in ``config/tables/llms.yaml`` and their request bodies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from cadmus.config import TABLES, Section, read_model
from cadmus.config.fields import NonNegative
from cadmus.errors import InputError, suggest
from cadmus.llm.prompt import prompt

MODELS = TABLES / "llms.yaml"
"""Table of this checkout."""
URLS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "completions": "/v1/completions"}
"""Path of each endpoint."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Pattern of names, which file names contain."""
Name = Annotated[str, Field(pattern=NAME)]


class Entry(Section):
    """Fields of a language model in the table."""

    model: Annotated[str, Field(min_length=1)]
    """name on the server"""
    endpoint: Literal["chat", "responses", "completions"]
    transport: Literal["batch", "direct"]
    reasoning_effort: str = ""
    """as the server calls it; the server's default if empty"""
    usd_per_million_input: NonNegative
    usd_per_million_output: NonNegative
    source: str
    """source of the prices"""


class LanguageModel(Entry):
    """A language model and its name in configs, figures and file names."""

    name: Name

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """Return the price of a number of tokens in USD."""
        cost = input_tokens * self.usd_per_million_input + output_tokens * self.usd_per_million_output
        return cost / 1e6

    def body(self, program: str, symbols: str, max_output_tokens: int) -> dict[str, Any]:
        """Return the body of the request for the comparator that completes a program.

        Args:
            program: all before the comparator, in normal symbols.
            symbols: symbols of the prompt, see ``llm.symbols``.
            max_output_tokens: limit of the answer.
        """
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
    """Return the models of a table with these names, in their order.

    Raises:
        InputError: the table is invalid, or a name is missing.
    """
    table = read_model(path, dict[Name, Entry])
    for name in names:
        if name not in table:
            raise InputError(f"llm.models: no model {name!r} in {path}; {suggest(name, table)}")
    return [LanguageModel(name=name, **table[name].model_dump()) for name in names]
