"""The ranks of a training: how many, their processes, nodes and devices, and signals.

One command starts all ranks of its node with the library of ``torchrun``; ``torchrun`` itself prints a
traceback after the one-line error of a rank. Under SLURM, ``srun`` starts the command once per node. Ranks of
one machine meet on its loopback interface; by default PyTorch listens on all interfaces.
"""

import logging
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
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
PATIENCE_SECONDS = 300
"""Time that the nodes of a job have to start."""
SAVE_SECONDS = 600
"""Time that a rank has to save its checkpoint after a signal before it is killed."""
FIRST_PORT, PORTS = 20_000, 10_000
"""Range of the port that the nodes of a SLURM job meet at, chosen by the job's number."""
HOST = "127.0.0.1"
MOST_RANKS = 1_000_000
VARIABLES = {
    "WORLD_SIZE": (1, MOST_RANKS),
    "RANK": (0, MOST_RANKS),
    "LOCAL_WORLD_SIZE": (1, MOST_RANKS),
    "LOCAL_RANK": (0, MOST_RANKS),
    "SLURM_STEP_NUM_NODES": (1, MOST_RANKS),
    "SLURM_NODEID": (0, MOST_RANKS),
    "SLURM_JOB_ID": (0, 2**63 - 1),
    "MASTER_PORT": (1, 65_535),
}
"""Numbers in variables that launchers set, with their bounds; PyTorch and DeepSpeed read some of them too."""
OF_NODES = ("SLURM_JOB_ID", "SLURM_NODEID", "SLURM_LAUNCH_NODE_IPADDR")
"""Variables that ``srun`` sets on each of several nodes."""
T = TypeVar("T")


class Place(NamedTuple):
    """A rank, the number of ranks, and the device that it computes on."""

    rank: int
    ranks: int
    device: torch.device


ALONE = Place(0, 1, torch.device("cpu"))


class Nodes(NamedTuple):
    """The nodes that ``srun`` started this command on, once on each."""

    size: int
    rank: int
    """Index of this node."""
    endpoint: str
    """Host and port of the first node."""
    job: str


def check_environment() -> None:
    """Check the variables of a launcher, before anything reads them."""
    fix = "a launcher sets it; unset it to train without one"
    values = {}
    for name, (low, high) in VARIABLES.items():
        text = os.environ.get(name)
        if text is None:
            continue
        if not re.fullmatch(r"[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise InputError(f"{name}: must be a whole number from {low} to {high}, got {text[:40]!r}; {fix}")
        values[name] = int(text)
    if "RANK" in values and "WORLD_SIZE" not in values:
        raise InputError(
            "WORLD_SIZE: is missing, but RANK is set; set both, or neither to train without a launcher"
        )
    if values.get("WORLD_SIZE", 1) > 1 and "MASTER_PORT" not in values:
        problem = f"is missing, but WORLD_SIZE is {values['WORLD_SIZE']}"
        raise InputError(f"MASTER_PORT: {problem}; start with torchrun")
    values.setdefault("WORLD_SIZE", 1)
    for rank, size in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        if rank in values and values[rank] >= values.get(size, MOST_RANKS):
            raise InputError(f"{rank}: must be below {size} {values[size]}, got {values[rank]}; {fix}")
    missing = [name for name in OF_NODES if name not in os.environ]
    if values.get("SLURM_STEP_NUM_NODES", 1) > 1 and missing:
        raise InputError(f"{missing[0]}: is missing, but SLURM_STEP_NUM_NODES is set; start with srun")


def slurm_nodes() -> Nodes | None:
    """Return the nodes of this SLURM job step; None for a single node, or outside a step."""
    count = int(os.environ.get("SLURM_STEP_NUM_NODES", 1))
    if count == 1:
        return None
    job = os.environ["SLURM_JOB_ID"]
    # srun runs in the job's script, on the first node; its address needs no name service.
    endpoint = f"{os.environ['SLURM_LAUNCH_NODE_IPADDR']}:{FIRST_PORT + int(job) % PORTS}"
    return Nodes(count, int(os.environ["SLURM_NODEID"]), endpoint, job)


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


def count_ranks(
    train: Train, nodes: Nodes | None = None, log: Callable[[str], None] = lambda line: None
) -> int:
    """Return the number of ranks over all nodes, or on this machine: the config's, else one per GPU or core.

    There are fewer if they would not share the batch equally, or a CPU rank would have less than
    :data:`FEWEST_PROGRAMS` programs per step; the remaining cores serve the ranks as threads. ``log`` takes a
    line if OMP_NUM_THREADS allows fewer.
    """
    if train.ranks != "auto":
        return train.ranks
    node_count = 1 if nodes is None else nodes.size
    if torch.cuda.is_available():
        most = torch.cuda.device_count()
    else:
        most = min(cores(), train.batch_size // (FEWEST_PROGRAMS * node_count))
        # Snakemake's --cores, and many clusters, set the variable.
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        if allowed.isdecimal() and 0 < int(allowed) < most:
            log(f"OMP_NUM_THREADS={allowed} limits a node to {allowed} of {most} ranks; unset it to use all")
            most = int(allowed)
    candidates = (node_count * per_node for per_node in range(most, 0, -1))
    return next((ranks for ranks in candidates if not train.indivisible(ranks)), node_count)


def run_ranks(command: list[str], count: int, nodes: Nodes | None = None) -> int:
    """Run ``command`` as ``count`` ranks over all ``nodes``, which call this together; None is this machine.

    On a signal, torch's agent sends it on to the ranks that it started, which have :data:`SAVE_SECONDS` to
    save their checkpoint. Under ``nohup`` neither it nor the ranks take SIGHUP. Returns the exit code of the
    first rank that failed, 1 if a signal ended it or this process, or 0.
    """
    if nodes is not None and count % nodes.size:
        of_job = f"the {nodes.size} nodes of job {nodes.job}"
        raise InputError(f"train.ranks: {count} ranks cannot be shared equally by {of_job}")
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # The agent logs a traceback if the first node leaves first; these modules set their own levels.
    for name in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SAVE_SECONDS))
    if nodes is None:
        store = _loopback_store()
        nodes = Nodes(1, 0, f"{HOST}:{store.port}", str(uuid4()))
    else:
        store = wait_for_nodes(nodes)
    handled = ["SIGTERM", "SIGINT", "SIGQUIT", *(["SIGHUP"] if hangs_up() else [])]
    settings = LaunchConfig(
        min_nodes=nodes.size,
        max_nodes=nodes.size,
        nproc_per_node=count // nodes.size,
        run_id=nodes.job,
        rdzv_backend="static",
        rdzv_endpoint=nodes.endpoint,
        rdzv_configs={"rank": nodes.rank},
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


def wait_for_nodes(nodes: Nodes) -> TCPStore:
    """Wait until all nodes of a job have started this command; return the store at which they meet.

    torch's agent waits in code that signals do not interrupt.
    """
    host, port = nodes.endpoint.rsplit(":", 1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    options: dict[str, Any] = {"is_master": nodes.rank == 0, "wait_for_workers": False, "multi_tenant": True}
    store, waiting, said = None, [*range(nodes.size)], False
    while waiting:
        try:
            store = store or TCPStore(host, int(port), timeout=timedelta(seconds=2), **options)
            store.set(f"node {nodes.rank}", "")
            waiting = [number for number in waiting if not store.check([f"node {number}"])]
        except (RuntimeError, OSError):
            # The first node has not started.
            store = None
        if waiting and time.monotonic() > deadline:
            problem = f"node {waiting[0] + 1} of {nodes.size} has not started within {PATIENCE_SECONDS} s"
            raise InputError(f"{problem}, at {nodes.endpoint}; look at its log, or start fewer nodes")
        if waiting and not said:
            print(f"waiting for node {waiting[0] + 1} of {nodes.size} at {nodes.endpoint}", flush=True)
            said = True
        if waiting:
            time.sleep(0.2)
    assert store is not None
    return store


def check_devices(ranks: int) -> None:
    """Check that this node has a device for each of its ``ranks``."""
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        if ranks > count:
            raise InputError(
                f"train.ranks: this node has {count} GPUs for {ranks} ranks; set at most {count} per node"
            )
    elif (has_gpu() or os.environ.get("SLURM_JOB_GPUS")) and os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        raise InputError(
            f"this node has GPUs that PyTorch {torch.__version__} cannot use; update the NVIDIA driver, "
            "install PyTorch for the CUDA version that `nvidia-smi` shows, or set CUDA_VISIBLE_DEVICES= to "
            "train on CPUs"
        )


def take_device() -> torch.device:
    """Return the device of this rank: its GPU, which becomes the current device, or the CPU."""
    local_rank = int(os.environ["LOCAL_RANK"])
    try:
        check_devices(int(os.environ["LOCAL_WORLD_SIZE"]))
    except InputError as error:
        # One rank reports the error for its node.
        raise RankLocalError(str(error)) if local_rank == 0 else error from None
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # NCCL uses the current device for objects and barriers; the default is the GPU of local rank 0.
    torch.cuda.set_device(local_rank)
    # cuDNN plans for each number of rows, and a training has dozens.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda", local_rank)


def join() -> Any:
    """Complete the environment of a rank; one that was started alone gets a server to meet itself at.

    Returns that server, to keep until the process group has it; None if a launcher has set the address.
    """
    check_environment()
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": HOST}
    os.environ.update({**alone, **os.environ})
    if "MASTER_PORT" in os.environ:
        return None
    store = _loopback_store()
    os.environ["MASTER_PORT"] = str(store.port)
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
