"""Objectives of a training, one module each.

The config names those of a training (:attr:`cadmus.config.Config.objectives`); the module of each, here or in
a lab, has a class called ``OBJECTIVE``. Every training predicts the next token; the others are optional.
``docs/training.md`` adds one.
"""

import importlib

from cadmus import plugins
from cadmus.config import Config
from cadmus.programs import Samples
from cadmus.train.loader import Loader
from cadmus.train.objectives.objective import Objective
from cadmus.train.order import Order
from cadmus.train.ranks import ALONE, Place


def of(run: Config) -> list[type[Objective]]:
    """Return the objectives of a training."""
    # Some import Polars, which other trainings do without.
    modules = [plugins.module_of("OBJECTIVES", name, __name__) for name in run.objectives]
    return [importlib.import_module(module).OBJECTIVE for module in modules]


def make_loader(run: Config, training_set: Samples, seed: int, place: Place = ALONE) -> Loader:
    """Return a loader with what the objectives of a training add to its batches, and their order."""
    kinds = of(run)
    orders = (kind.order(run, training_set, seed) for kind in kinds)
    order = next(filter(None, orders), None) or Order(training_set, seed)
    supervisions = (kind.supervision(run, seed) for kind in kinds)
    return Loader(training_set, order, run, place, [*filter(None, supervisions)])
