"""Configuration of a run: one module per section, ``loading`` for the whole and its files."""

from cadmus.config.dataset import (
    LONGEST_PROGRAM,
    OF_THE_PAPER,
    OOD,
    OPERATORS,
    SPLITS,
    TEMPLATE_OF,
    TEMPLATES,
    Dataset,
    ExpressionTemplate,
    OODRule,
    Values,
)
from cadmus.config.evaluation import Evaluate
from cadmus.config.fields import Section, what_counts
from cadmus.config.loading import (
    TABLES,
    Config,
    digest,
    find_config,
    load_config,
    merged,
    parse_config,
    read_changes,
    read_model,
    read_yaml,
    validate,
)
from cadmus.config.model import Model
from cadmus.config.objectives import StateLabels
from cadmus.config.training import PAPER, Train
