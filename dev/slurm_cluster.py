"""SLURM cluster on this machine: the daemons of the distribution with mock nodes and GPUs.

The nodes are two slurmd on the loopback interface that claim more cores and memory than exist. A GPU is a
device node like /dev/null: SLURM allocates it and sets CUDA_VISIBLE_DEVICES, but no program can use it.
`python -m dev.slurm_cluster` runs a cluster until Ctrl-C.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dev.measure import running, wait_for

# The default directory: within a job, the executor plugin drops SLURM_CONF.
CONFIGURATION, GRES = Path("/etc/slurm/slurm.conf"), Path("/etc/slurm/gres.conf")
MARK = "# Written by dev/slurm_cluster.py of Cadmus, which removes it at the end.\n"
GPUS = 8
"""GPUs per node."""


@contextmanager
def slurm_cluster() -> Iterator[None]:
    """Run the daemons, with all their files in a temporary directory, which stays after a failure."""
    if os.geteuid():
        sys.exit("slurm-test: SLURM daemons need root; run it as root or in a container")
    for path in (CONFIGURATION, GRES):
        if path.exists() and not path.read_text().startswith(MARK):
            sys.exit(f"slurm-test: {path} belongs to another cluster; use a machine without SLURM")
    if not all(map(shutil.which, ("slurmctld", "slurmd", "srun", "munged"))):
        # Debian would start the daemons; without a configuration they fail.
        packages = ("slurmctld", "slurmd", "slurm-client", "munge")
        install = ("apt-get", "install", "--yes", "--no-install-recommends", *packages)
        subprocess.run(install, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=True)
    directory = Path(tempfile.mkdtemp(prefix="slurm-"))
    print(f"slurm-test: logs of the daemons in {directory}", flush=True)
    with ExitStack() as stack:
        for path in (CONFIGURATION, GRES):
            stack.callback(path.unlink, missing_ok=True)
        for name, command in _configured(directory).items():
            stack.enter_context(running(command, directory / f"{name}.out"))
        wait_for(lambda: ask("sinfo", "--noheader", "--format=%t %D") == "idle 2", "the nodes to be idle")
        stack.callback(_cancel_jobs)
        yield
    shutil.rmtree(directory)


def _cancel_jobs() -> None:
    subprocess.run(["scancel", "--user=root"], check=False)
    with suppress(TimeoutError):
        wait_for(lambda: not ask("squeue", "--noheader"), "the jobs to end")


def _configured(directory: Path) -> dict[str, list[str]]:
    """Write what the daemons read and return their commands."""
    munge = directory / "munge"
    for path in (munge, directory / "state", directory / "spool-node1", directory / "spool-node2"):
        path.mkdir()
    (munge / "key").write_bytes(secrets.token_bytes(128))
    (munge / "key").chmod(0o400)
    # All users need access to the socket.
    directory.chmod(0o755)
    munge.chmod(0o755)
    for number in range(GPUS):
        os.mknod(directory / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))
    template = Path(__file__).with_name("slurm.conf").read_text()
    values = template.format(directory=directory, host=socket.gethostname(), gpus=GPUS)
    CONFIGURATION.parent.mkdir(exist_ok=True)
    CONFIGURATION.write_text(MARK + values)
    GRES.write_text(f"{MARK}Name=gpu Type=h100 File={directory}/gpu[0-{GPUS - 1}]\n")
    files = {"log-file": "log", "key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    return {
        "munged": ["munged", "--foreground", *(f"--{name}={munge / file}" for name, file in files.items())],
        "slurmctld": ["slurmctld", "-D"],
        "node1": ["slurmd", "-D", "-N", "node1"],
        "node2": ["slurmd", "-D", "-N", "node2"],
    }


def ask(*command: str) -> str:
    """Return the output of a SLURM command, empty if it fails."""
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with slurm_cluster(), suppress(KeyboardInterrupt):
        print("SLURM cluster is running, Ctrl-C stops it", flush=True)
        signal.pause()
