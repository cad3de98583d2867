"""Several ranks on this machine, through the library behind ``torchrun``.

``torchrun`` itself would print a traceback under the one line in which a rank says what is wrong.
"""

import logging
import sys
from uuid import uuid4


def run_ranks(command: list[str], count: int) -> int:
    """Run ``command`` as ``count`` ranks; SIGTERM and SIGINT are passed on to all of them.

    Returns:
        The exit code of the first rank that failed, 1 if it was killed or stopped by a signal, or 0.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=str(uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(settings, command[0])(*command[1:])
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return max(failure.exitcode, 1)
    except SignalException:
        return 1
    return 0


def python_command() -> list[str]:
    """The running ``cadmus`` command, to be started again."""
    return [sys.executable, "-m", "cadmus", *sys.argv[1:]]
