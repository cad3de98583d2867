"""Large language models in ``models.yaml``, and how Inspect asks them."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from cadmus.config import Section, read_model, validate
from cadmus.config.fields import NonNegative
from cadmus.errors import InputError, suggest

if TYPE_CHECKING:
    from inspect_ai.model import Model

MODELS = Path(__file__).with_name("models.yaml")
"""The shipped table."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Name of a model in configs, figures and file names."""


class LanguageModel(Section):
    """A language model in the table."""

    model: Annotated[str, Field(pattern=r"^[^/]+/.+")]
    """Inspect's name of it, with its provider"""
    base_url: str = ""
    """server of one's own"""
    key: str = ""
    """environment variable with the key, without which the model is not asked; none if empty"""
    answer: Literal["free", "choice"] = "free"
    """what the model writes, or the likeliest of the three comparators"""
    reads_limit: bool = False
    """whether a model is told its limit, so that a shorter answer is not the beginning of a longer one"""
    options: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Inspect's options of generation, such as `temperature`, `batch` or `reasoning_effort`"""
    usd_per_million_input: NonNegative = 0
    usd_per_million_output: NonNegative = 0
    source: str = ""
    """source of the prices"""

    @property
    def usable(self) -> bool:
        """True if it needs no key or the environment has it."""
        return not self.key or bool(os.environ.get(self.key))

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """Return the price of a number of tokens in USD."""
        cost = input_tokens * self.usd_per_million_input + output_tokens * self.usd_per_million_output
        return cost / 1e6

    def inspect(self) -> "Model":
        """Return Inspect's model, which keeps every reply, if the server has it."""
        from inspect_ai.model import CachePolicy, GenerateConfig, get_model

        config = validate({**self.options, "cache": CachePolicy(expiry=None)}, GenerateConfig, "options")
        if not self.base_url:
            return get_model(self.model, config=config)
        # Inspect's name is PROVIDER/NAME or, for servers of one's own, openai-api/SERVER/NAME.
        served, name = _served(self.base_url), self.model.split("/", 2)[-1]
        if served and name not in served:
            raise InputError(f"{self.base_url}: has no model {name!r}; it has {', '.join(served)}")
        key = os.environ.get(self.key, "none")
        return get_model(self.model, config=config, base_url=self.base_url, api_key=key)


def _served(base_url: str) -> list[str]:
    """Return the models that a server lists; none if it keeps the list to itself."""
    try:
        with urllib.request.urlopen(f"{base_url.rstrip('/')}/models", timeout=10) as reply:
            return [str(model["id"]) for model in json.load(reply)["data"]]
    except urllib.error.HTTPError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{base_url}: no server answers there ({error})") from None


def read_models(path: Path, names: Sequence[str]) -> dict[str, LanguageModel]:
    """Return the models of a table with these names, in their order."""
    table = read_model(path, dict[Name, LanguageModel])
    for name in names:
        if name not in table:
            raise InputError(f"models: no model {name!r} in {path}; {suggest(name, table)}")
    return {name: table[name] for name in names}
