"""A server whose forks run ``python -m cadmus`` and ``-m snakemake``, with the packages imported already.

A job of a tiny workflow spends most of its time on imports. In a copy of the checkout, ``sitecustomize``
hands these commands over to the server if :data:`ADDRESS` is set. The server imports no module of Cadmus:
each fork imports those of its own copy.
"""

import gc
import json
import multiprocessing
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

ADDRESS = "FORKED_PYTHON"
"""Environment variable with the path of the server's socket; empty for new processes."""
MODULES = ("cadmus", "snakemake")
PACKAGES = (
    "deepspeed.runtime.zero.muon.muon_optimizer",
    "huggingface_hub",
    "matplotlib.figure",
    "numba",
    "polars",
    "pyarrow.parquet",
    "pydantic",
    "scipy.stats",
    "sklearn.linear_model",
    "snakemake.cli",
    "torch._dynamo",
    "torch.distributed.fsdp",
)
STREAMS = (0, 1, 2)
FORKS = multiprocessing.get_context("fork")
NUMBER = 4
"""Bytes of a process id or an exit code."""


@contextmanager
def server() -> Iterator[str]:
    """Start a server, which imports the packages for the first command; yield its address."""
    path = f"{mkdtemp(prefix='forked-')}/socket"
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    # It ends when its standard input is closed, as by the end of this process.
    with subprocess.Popen([sys.executable, __file__, path], **pipes) as process:
        process.stdout.readline()
        yield path


def hand_over() -> None:
    """Let the server run the command of this process, if it is of :data:`MODULES`, and exit as it does."""
    if not os.environ.get(ADDRESS) or sys.orig_argv[1] != "-m" or sys.orig_argv[2] not in MODULES:
        return
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(os.environ[ADDRESS])
            socket.send_fds(server, [b" "], STREAMS)
            command = {"command": sys.orig_argv[2:], "directory": os.getcwd(), "environment": {**os.environ}}
            server.sendall(json.dumps(command).encode())
            server.shutdown(socket.SHUT_WR)
            job = _received(server)
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, lambda number, _: os.kill(job, number))
            code = _received(server)
        except OSError as error:
            sys.exit(f"{ADDRESS}: {error}")
    if code < 0:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _received(server: socket.socket) -> int:
    data = server.recv(NUMBER, socket.MSG_WAITALL)
    if len(data) < NUMBER:
        raise ConnectionError("the server closed the connection")
    return int.from_bytes(data, signed=True)


def serve(path: str) -> None:
    """Fork a keeper for each command, which runs it in a fork of its own and returns how it ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("listening", flush=True)
        # No one waits for the keepers.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                Path(path).unlink()
                Path(path).parent.rmdir()
                os._exit(0)
            if not gc.get_freeze_count():
                for package in PACKAGES:
                    import_module(package)
                # Forks do not touch, and so copy, the memory of the packages.
                gc.freeze()
            client, _ = listener.accept()
            if not os.fork():
                break
            client.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with client:
        _, streams, _, _ = socket.recv_fds(client, 1, len(STREAMS))
        # As a process of multiprocessing it ends without taking all modules apart, which takes half a second.
        job = FORKS.Process(target=run, args=(streams,), kwargs=json.loads(client.makefile("rb").read()))
        job.start()
        client.sendall(job.pid.to_bytes(NUMBER, signed=True))
        job.join()
        client.sendall(job.exitcode.to_bytes(NUMBER, signed=True))
    os._exit(0)


def run(streams: list[int], command: list[str], directory: str, environment: dict[str, str]) -> None:
    """Run a command as ``python -m`` does in a new process."""
    import torch

    for ours, theirs in zip(STREAMS, streams, strict=True):
        os.dup2(theirs, ours)
    # Instead of /dev/null, which multiprocessing gives it.
    sys.stdin = os.fdopen(0)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", 1)))
    sys.path[:1] = [directory, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(sys.argv[1])
