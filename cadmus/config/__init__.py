"""Configuration of a run: one module per section, ``loading`` for the files."""

from cadmus.config.dataset import OOD, SPLITS, Dataset, OODRule, Values
from cadmus.config.experiments import Evaluate, Llm
from cadmus.config.fields import Above0, Positive, ProgramCount, Section, Value, check_order
from cadmus.config.loading import (
    CONFIGS,
    TABLES,
    as_yaml,
    config_model,
    extended,
    find_config,
    load_config,
    parse_config,
    parse_json,
    read_json,
    read_model,
    read_yaml,
    validate,
    with_current_names,
)
from cadmus.config.schema import Config, digest
from cadmus.config.templates import LONGEST_PROGRAM, OPERATORS, TEMPLATES, ExpressionTemplate, Templates
from cadmus.config.training import RECIPES, Model, StateLabels, Train

__all__ = [
    "CONFIGS",
    "LONGEST_PROGRAM",
    "OOD",
    "OPERATORS",
    "RECIPES",
    "SPLITS",
    "TABLES",
    "TEMPLATES",
    "Above0",
    "Config",
    "Dataset",
    "Evaluate",
    "ExpressionTemplate",
    "Llm",
    "Model",
    "OODRule",
    "Positive",
    "ProgramCount",
    "Section",
    "StateLabels",
    "Templates",
    "Train",
    "Value",
    "Values",
    "as_yaml",
    "check_order",
    "config_model",
    "digest",
    "extended",
    "find_config",
    "load_config",
    "parse_config",
    "parse_json",
    "read_json",
    "read_model",
    "read_yaml",
    "validate",
    "with_current_names",
]
