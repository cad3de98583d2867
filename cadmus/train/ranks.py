"""The ranks of a training: how many, their processes and devices, and signals.

One command starts all ranks, on one machine, with the library of ``torchrun``; ``torchrun`` itself prints a
traceback after the one-line error of a rank. Ranks meet on the loopback interface; by default PyTorch listens
on all interfaces.
"""

import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import torch
from torch import distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from cadmus.config import Train
from cadmus.errors import InputError, RankLocalError
from cadmus.tools import cores, has_gpu

FEWEST_PROGRAMS = 32
"""Programs per step and CPU rank; with fewer, another rank costs more than it saves."""
SAVE_SECONDS = 600
"""Time that a rank has to save its checkpoint after a signal before it is killed."""
HOST = "127.0.0.1"
RUN_ID, RUN_PREFIX = "TORCHELASTIC_RUN_ID", "cadmus-"
"""Variable that tells a rank its run, and the beginning of those of :func:`run_ranks`."""
T = TypeVar("T")


class Place(NamedTuple):
    """A rank, the number of ranks, and the device that it computes on."""

    rank: int
    ranks: int
    device: torch.device


ALONE = Place(0, 1, torch.device("cpu"))


def is_started() -> bool:
    """Return True if :func:`run_ranks` started this process, which is a rank; no other launcher may have."""
    if os.environ.get(RUN_ID, "").startswith(RUN_PREFIX):
        return True
    if (size := os.environ.get("WORLD_SIZE", "1")) != "1":
        problem = f"a launcher such as torchrun has set it, to {size[:40]!r}"
        raise InputError(f"WORLD_SIZE: {problem}; start without one, as a training starts its own ranks")
    return False


def is_first() -> bool:
    """Return True unless this process is another rank than the first."""
    return not is_started() or os.environ["RANK"] == "0"


def requeue() -> str | None:
    """Put this SLURM job back in the queue, which ends it; SLURM restarts it with the same number.

    A job that was canceled or reached its time limit also receives SIGTERM, but stays ended. Returns the
    reason why the job was not requeued, or None.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return "this is not a SLURM job"
    try:
        # A canceled job must not start again.
        state = _output("squeue", "--noheader", "--format=%T", f"--jobs={job}")
        if state != "RUNNING":
            return f"job {job} is {state}"
        _output("scontrol", "requeue", job)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"
    return None


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def count_ranks(train: Train, log: Callable[[str], None] = lambda line: None) -> int:
    """Return the number of ranks on this machine: the config's, else one per GPU or core.

    There are fewer if they would not share the batch equally, or a CPU rank would have less than
    :data:`FEWEST_PROGRAMS` programs per step; the remaining cores serve the ranks as threads. ``log`` takes a
    line if OMP_NUM_THREADS allows fewer.
    """
    if train.ranks != "auto":
        return train.ranks
    if torch.cuda.is_available():
        most = torch.cuda.device_count()
    else:
        most = min(cores(), train.batch_size // FEWEST_PROGRAMS)
        # Snakemake's --cores, and many clusters, set the variable.
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        if allowed.isdecimal() and 0 < int(allowed) < most:
            log(f"OMP_NUM_THREADS={allowed} allows {allowed} of {most} ranks; unset it to use all")
            most = int(allowed)
    return next((ranks for ranks in range(most, 0, -1) if not train.indivisible(ranks)), 1)


def run_ranks(command: list[str], count: int) -> int:
    """Run ``command`` as ``count`` ranks on this machine.

    On a signal, torch's agent sends it on to the ranks that it started, which have :data:`SAVE_SECONDS` to
    save their checkpoint. Under ``nohup`` neither it nor the ranks take SIGHUP. Returns the exit code of the
    first rank that failed, 1 if a signal ended it or this process, or 0.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # The agent logs what a rank has already said; these modules set their own levels.
    for name in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SAVE_SECONDS))
    store = _loopback_store()
    handled = ["SIGTERM", "SIGINT", "SIGQUIT", *(["SIGHUP"] if hangs_up() else [])]
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=f"{RUN_PREFIX}{uuid4()}",
        rdzv_backend="static",
        rdzv_endpoint=f"{HOST}:{store.port}",
        rdzv_configs={"rank": 0},
        # A rank that fails ends the training: Cadmus resumes from a checkpoint, not in place.
        max_restarts=0,
        signals_to_handle=",".join(handled),
    )
    try:
        elastic_launch(settings, command[0])(*command[1:])
    except SignalException:
        return 1
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return max(failure.exitcode, 1)
    return 0


def hangs_up() -> bool:
    """Return True if SIGHUP ends this process: ``nohup`` ignores it."""
    return signal.getsignal(signal.SIGHUP) != signal.SIG_IGN


def check_devices(ranks: int) -> None:
    """Check that this machine has a device for each of its ``ranks``."""
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        if ranks > count:
            raise InputError(
                f"train.ranks: this machine has {count} GPUs for {ranks} ranks; set at most {count}"
            )
    elif (has_gpu() or os.environ.get("SLURM_JOB_GPUS")) and os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        raise InputError(
            f"this machine has GPUs that PyTorch {torch.__version__} cannot use; update the NVIDIA driver, "
            "install PyTorch for the CUDA version that `nvidia-smi` shows, or set CUDA_VISIBLE_DEVICES= to "
            "train on CPUs"
        )


def take_device() -> torch.device:
    """Return the device of this rank: its GPU, which becomes the current device, or the CPU."""
    local_rank = int(os.environ["LOCAL_RANK"])
    try:
        check_devices(int(os.environ["LOCAL_WORLD_SIZE"]))
    except InputError as error:
        # One rank reports the error for all.
        raise RankLocalError(str(error)) if local_rank == 0 else error from None
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # NCCL uses the current device for objects and barriers; the default is the GPU of local rank 0.
    torch.cuda.set_device(local_rank)
    # cuDNN plans for each number of rows, and a training has dozens.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda", local_rank)


def join() -> Any:
    """Complete the environment of a rank that was started alone, which gets a server to meet itself at.

    Returns that server, to keep until the process group has it; None for a rank of :func:`run_ranks`.
    """
    if is_started():
        return None
    store = _loopback_store()
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    os.environ.update(alone, MASTER_ADDR=HOST, MASTER_PORT=str(store.port))
    return store


def _loopback_store() -> Any:
    """Return a store that only this machine can reach, whose ranks use the loopback interface.

    While it lives, PyTorch uses its server for every multi-tenant store on its port in this process.
    """
    # For collectives of this process and its children, unless the user chose an interface.
    name = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    if name is not None:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, name)
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        try:
            socket.create_connection((HOST, port), timeout=10).close()
        except OSError as error:
            problem = f"{HOST}: not reachable ({error.strerror or error}), where ranks meet"
            raise InputError(f"{problem}; start the loopback interface: ip link set lo up") from None
        options: dict[str, Any] = {"is_master": True, "wait_for_workers": False, "multi_tenant": True}
        # The store owns the file descriptor.
        return TCPStore(HOST, port, **options, master_listen_fd=listener.detach())


def on_first_rank(action: Callable[[], T]) -> T:
    """Return on all ranks what ``action`` returns on the first one, or raise its InputError on all."""
    result: list[Any] = [None, None]
    if distributed.get_rank() == 0:
        try:
            result[0] = action()
        except InputError as error:
            result[1] = str(error)
    distributed.broadcast_object_list(result)
    if result[1] is not None:
        raise InputError(result[1])
    return result[0]


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect signals that end a process, for work that has to reach its end or a checkpoint."""
    received: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hangs_up() else []))
    before = [signal.signal(number, lambda got, frame: received.append(got)) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
