"""Modules that a training imports and loads before its first step, for the server that forks trainings."""

import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401
import numpy as np
import torch._dynamo
import torch.distributed.fsdp  # noqa: F401

from cadmus.config import parse_config
from cadmus.programs import Programs
from cadmus.train import validation  # noqa: F401
from cadmus.train.objectives import reinforcement  # noqa: F401
from cadmus.train.objectives.state_supervision import LabeledStates
from cadmus.train.packing import Drawn, pack_batch
from tests.train import runs, worker  # noqa: F401

_RUN = parse_config(runs.run_config(), "preload")
pack_batch(Drawn.of(Programs.from_strings(["34+7="]), np.array([4])), 6, [LabeledStates(_RUN)])
