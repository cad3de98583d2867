"""Configuration of a run: one module per section, ``loading`` for the files."""

from cadmus.config.dataset import OOD, SPLITS, Dataset, OODRule, Values
from cadmus.config.evaluation import Evaluate, Llm
from cadmus.config.fields import Above0, Section
from cadmus.config.loading import (
    TABLES,
    as_yaml,
    extended,
    find_config,
    load_config,
    parse_config,
    read_json,
    read_model,
    read_yaml,
    validate,
)
from cadmus.config.schema import Config, digest
from cadmus.config.templates import (
    LONGEST_PROGRAM,
    OPERATORS,
    TEMPLATE_OF,
    TEMPLATES,
    ExpressionTemplate,
    Templates,
)
from cadmus.config.training import RECIPES, Model, StateLabels, Train

__all__ = [
    "LONGEST_PROGRAM",
    "OOD",
    "OPERATORS",
    "RECIPES",
    "SPLITS",
    "TABLES",
    "TEMPLATES",
    "TEMPLATE_OF",
    "Above0",
    "Config",
    "Dataset",
    "Evaluate",
    "ExpressionTemplate",
    "Llm",
    "Model",
    "OODRule",
    "Section",
    "StateLabels",
    "Templates",
    "Train",
    "Values",
    "as_yaml",
    "digest",
    "extended",
    "find_config",
    "load_config",
    "parse_config",
    "read_json",
    "read_model",
    "read_yaml",
    "validate",
]
