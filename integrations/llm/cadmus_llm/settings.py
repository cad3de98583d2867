"""The config of the questions: which models are asked, and what."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from cadmus.config import Config, Section, load_config, validate
from cadmus.config.fields import Distinct, Integer, NonNegative, Positive
from cadmus.config.loading import changed, find_config, named_source, read_yaml
from cadmus.errors import naming

Alphabet = Literal["normal", "alternate", "letters", "permuted"]
Tokens = Annotated[Positive, Field(le=1_000_000)]


class Settings(Section):
    """Questions to large language models: comparisons in the training range of a run."""

    run: str = "quick"
    """config of the run: name of a shipped one, or a path relative to this file"""
    models: Distinct[str]
    """names of models in the table; those whose key is not set are not asked"""
    alphabets: Distinct[Alphabet] = ["normal", "alternate"]
    """symbols of the programs: those of the machine, the paper's other ones, letters, or those of the machine
    with each other's meanings"""
    shots: Distinct[Annotated[Integer, Field(ge=0, le=128)]] = [0]
    """training programs in the prompt, besides three that show the form"""
    programs: Positive = 200
    """test programs, balanced so that their operators do not tell the comparator"""
    grid: bool = True
    """ask also a program for each pair of values of the comparison grid"""
    max_output_tokens: Distinct[Tokens] = [256, 512, 1024, 2048, 4096, 8192]
    """output token limits, including reasoning; one point of the figure each"""
    max_cost_usd: NonNegative = 5.0
    """cost limit in USD; nothing is sent if all answers together could exceed it"""


def read_settings(path: Path, changes: dict[str, Any]) -> tuple[Settings, Config]:
    """Read a config of questions, with ``changes`` to its fields, and the config of its run."""
    settings = validate(changed(read_yaml(path), changes), Settings, named_source(path, changes))
    with naming(f"{path}: run"):
        return settings, load_config(find_config(settings.run, path.parent))
