"""Starting several ranks on this machine or on each node of a job step, with the library of ``torchrun``.

``torchrun`` itself prints a traceback after the one-line error of a rank.
"""

import logging
import os
import sys
from uuid import uuid4

from cadmus.common import interrupts
from cadmus.config import Train
from cadmus.errors import InputError
from cadmus.tools import cores
from cadmus.train import loopback
from cadmus.train.slurm import Nodes

FEWEST_PROGRAMS = 32
"""Programs per step and CPU rank; with fewer, another rank costs more than it saves."""
SAVE_SECONDS = 600.0
"""Time that a rank has to save its checkpoint after SIGTERM before it is killed."""


def count_ranks(train: Train, nodes: Nodes | None = None) -> int:
    """Return the number of ranks over all nodes: the config's or, if it is auto, one per GPU or core.

    There are fewer if they would not share the batch equally, or a CPU rank would have less than
    :data:`FEWEST_PROGRAMS` programs per step; the remaining cores serve the ranks as threads.
    ``nodes`` train together; None is this machine alone.
    """
    if train.ranks != "auto":
        return train.ranks
    import torch

    node_count = 1 if nodes is None else nodes.size
    if torch.cuda.is_available():
        most = torch.cuda.device_count()
    else:
        # Snakemake's --cores, and many clusters, set the variable.
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        most = min(cores(), int(allowed)) if allowed.isdecimal() and int(allowed) else cores()
        most = min(most, train.batch_size // (FEWEST_PROGRAMS * node_count))
    candidates = (node_count * of_node for of_node in range(most, 0, -1))
    return next(filter(train.divides, candidates), node_count)


def run_ranks(command: list[str], count: int, nodes: Nodes | None = None) -> int:
    """Run ``command`` as ``count`` ranks over all nodes.

    SIGTERM and SIGINT end this process with exit code 1, once the ranks that it started have ended: they get
    SIGTERM and :data:`SAVE_SECONDS` to save their checkpoint.

    ``nodes`` call this function together; None is this machine alone.

    Returns:
        Exit code of the first rank that failed, 1 if a signal killed it, or 0.

    Raises:
        InputError: the nodes cannot share so many ranks equally.
    """
    if nodes is not None and count % nodes.size:
        raise InputError(
            f"train.ranks: {count} ranks cannot be shared equally by the {nodes.size} nodes of job "
            f"{nodes.job}"
        )
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # The agent logs a traceback if the first node leaves first; these modules set their own levels.
    for name in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", f"{SAVE_SECONDS:.0f}")
    if nodes is None:
        loopback.use_interface()
        store = loopback.store()
        nodes = Nodes(1, 0, f"{loopback.HOST}:{store.port}", str(uuid4()))
    settings = LaunchConfig(
        min_nodes=nodes.size,
        max_nodes=nodes.size,
        nproc_per_node=count // nodes.size,
        run_id=nodes.job,
        rdzv_backend="static",
        rdzv_endpoint=nodes.endpoint,
        rdzv_configs={"rank": nodes.rank},
        max_restarts=0,
        # Not SIGTERM and SIGINT: torch loses track of a rank if its handler interrupts the start.
        signals_to_handle="SIGHUP,SIGQUIT",
    )
    try:
        with interrupts.waiting_for_children(SAVE_SECONDS):
            elastic_launch(settings, command[0])(*command[1:])
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return max(failure.exitcode, 1)
    return 0


def python_command() -> list[str]:
    """Return the running ``cadmus`` command, to start as a rank."""
    return [sys.executable, "-m", "cadmus", *sys.argv[1:]]
