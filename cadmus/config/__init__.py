"""Configuration of a run: one module per section, ``loading`` for the files."""

from cadmus.config.dataset import OOD, SPLITS, Dataset, OODRule, Values
from cadmus.config.experiments import Evaluate, Grid, Llm, Probe
from cadmus.config.fields import Section
from cadmus.config.loading import (
    TABLES,
    extended,
    find_config,
    load_config,
    parse_config,
    read_model,
    read_yaml,
    validate,
)
from cadmus.config.schema import Config, digest
from cadmus.config.templates import LONGEST_PROGRAM, OPERATORS, TEMPLATES, ExpressionTemplate, Templates
from cadmus.config.training import RECIPES, Model, Train

__all__ = [
    "LONGEST_PROGRAM",
    "OOD",
    "OPERATORS",
    "RECIPES",
    "SPLITS",
    "TABLES",
    "TEMPLATES",
    "Config",
    "Dataset",
    "Evaluate",
    "ExpressionTemplate",
    "Grid",
    "Llm",
    "Model",
    "OODRule",
    "Probe",
    "Section",
    "Templates",
    "Train",
    "Values",
    "digest",
    "extended",
    "find_config",
    "load_config",
    "parse_config",
    "read_model",
    "read_yaml",
    "validate",
]
