"""Modules that a training imports and loads before its first step, for the server that forks trainings."""

import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401
import numpy as np
import torch._dynamo
import torch.distributed.fsdp  # noqa: F401

from cadmus.config import Dataset, StateLabels
from cadmus.programs import Programs
from cadmus.train import validation  # noqa: F401
from cadmus.train.batches import Supervision, pack_batch
from cadmus.train.labels import state_labels
from cadmus.train.objectives import reinforcement  # noqa: F401
from tests.train import worker  # noqa: F401

_PROGRAMS = Programs.from_strings(["34+7="])
pack_batch(_PROGRAMS, np.array([4]), 6, Supervision(*state_labels(_PROGRAMS, StateLabels(), Dataset())))
