"""A curriculum: no term of the loss, but an order of the training programs."""

from cadmus.config import Config
from cadmus.labs.curriculum.order import Groups
from cadmus.programs import Samples
from cadmus.train.objectives.objective import Objective
from cadmus.train.order import Order


class Curriculum(Objective):
    """Orders the programs."""

    @classmethod
    def order(cls, run: Config, training_set: Samples, seed: int) -> Order:
        return Groups(training_set, seed, run)


OBJECTIVE = Curriculum
