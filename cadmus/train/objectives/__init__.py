"""Objectives of a training, each a term of its loss, one module each.

The config names the objectives of a training (:meth:`cadmus.config.Train.objectives`); the module of each
has a class called ``OBJECTIVE``. Every training predicts the next token, or with full attention masked
tokens; the others are optional. Two of them ask the model for completions (:mod:`.sampler`).
``docs/training.md`` adds one.
"""

import importlib

from cadmus.train.objectives.objective import Objective, Setting


def build(setting: Setting) -> list[Objective]:
    """Return the objectives of a training."""
    # Some import Polars, which other trainings do without.
    names = setting.run.objectives
    return [importlib.import_module(f"{__name__}.{name}").OBJECTIVE(setting) for name in names]
