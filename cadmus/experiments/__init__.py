"""Experiments on a trained model, one module each.

The module of an experiment declares an :class:`~cadmus.experiments.experiment.Experiment` called
``EXPERIMENT``; its settings are the config section ``evaluate.NAME``. The command ``cadmus evaluate NAME``,
the Snakemake job, and the figures follow. ``docs/experiments.md`` adds one.
"""

import functools
import importlib

from cadmus import plugins
from cadmus.columns import METRICS, Table
from cadmus.config.evaluation import EXPERIMENTS
from cadmus.errors import InputError, suggest
from cadmus.experiments.experiment import Experiment, Figure

NAMES = EXPERIMENTS
"""Every experiment, in the order in which documents list them."""
FORMATS = {"figure": (".pdf", ".png", ".csv"), "table": (".csv", ".md")}
"""Suffixes of the files of each kind of figure."""
OTHERS = (
    Figure(
        "training_curve",
        "Training loss over all tokens and over the tokens of completions; dark lines are running means. "
        "Points are programs of the validation split, the same number of each template, while training has "
        "more programs of some. In the shaded steps the model trains by reinforcement.",
        sources=("metrics",),
        compares=True,
    ),
    Figure("table1_related_work", "Related work (the paper's Table 1).", "table"),
    Figure(
        "table2_instructions",
        "Instructions of the comparison and their alternate symbols (the paper's Table 2).",
        "table",
    ),
)
"""Figures and tables that are drawn from no experiment."""


@functools.cache
def get(name: str) -> Experiment:
    """Return the declaration of the experiment called ``name``."""
    if name not in NAMES:
        raise InputError(f"no experiment {name!r}; {suggest(name, NAMES)}")
    return importlib.import_module(module_of(name)).EXPERIMENT


def module_of(name: str) -> str:
    """Return the module of the experiment called ``name``, which may be in a lab."""
    return plugins.module_of("EXPERIMENTS", name, __name__)


def table(source: str) -> Table:
    """Return the declared table of an experiment or of ``metrics``."""
    return METRICS if source == "metrics" else get(source).table


@functools.cache
def figures() -> dict[str, Figure]:
    """Return every figure and table by name: those of the experiments, then the others."""
    declared = [
        figure._replace(sources=(name, *figure.sources)) for name in NAMES for figure in get(name).figures
    ]
    return {figure.name: figure for figure in (*declared, *OTHERS)}
