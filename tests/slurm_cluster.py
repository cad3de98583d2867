"""SLURM cluster on this machine: the daemons of the distribution with mock nodes and GPUs.

The nodes are two slurmd on the loopback interface that claim more cores and memory than exist. A GPU is a
device node like /dev/null: SLURM allocates it and sets CUDA_VISIBLE_DEVICES, but no program can use it.
`python -m tests.slurm_cluster` runs a cluster until Ctrl-C.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
CONFIGURATION = Path("/etc/slurm")
"""The default directory: within a job, the executor plugin drops SLURM_CONF."""
MARK = "# Written by the tests of Cadmus, which remove it at the end.\n"
NODES = ("node1", "node2")
GPUS = 8
"""GPUs per node."""
REQUEUE_SECONDS = 10
"""Delay before a requeued job may restart; two minutes by default."""


class SlurmCluster:
    """Context manager that starts the daemons and stops them.

    Attributes:
        directory: all files of the daemons.
        processes: daemons by name.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "SlurmCluster":
        if os.geteuid():
            sys.exit("slurm-test: SLURM daemons need root; run it as root or in a container")
        for name in ("slurm.conf", "gres.conf"):
            path = CONFIGURATION / name
            if path.exists() and not path.read_text().startswith(MARK):
                sys.exit(f"slurm-test: {path}: belongs to another cluster; run it on a machine without SLURM")
        install()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        munge = self.directory / "munge"
        munge.mkdir(mode=0o700)
        (munge / "key").write_bytes(secrets.token_bytes(128))
        (munge / "key").chmod(0o400)
        # All users need access to the socket.
        self.directory.chmod(0o755)
        munge.chmod(0o755)
        for number in range(GPUS):
            os.mknod(self.directory / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.directory / name).mkdir()
        CONFIGURATION.mkdir(exist_ok=True)
        (CONFIGURATION / "slurm.conf").write_text(MARK + self._slurm_conf())
        (CONFIGURATION / "gres.conf").write_text(
            f"{MARK}Name=gpu Type=h100 File={self.directory}/gpu[0-{GPUS - 1}]\n"
        )
        places = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={munge / name}" for option, name in places.items()]
        self._run("munged", "--foreground", f"--log-file={munge / 'log'}", *options)
        self.start_controller()
        for node in NODES:
            self._run("slurmd", "-D", "-N", node, name=node)
        wait_for(lambda: ask("sinfo", "--noheader", "--format=%t %D") == "idle 2", 60, "the nodes to be idle")

    def _slurm_conf(self) -> str:
        host, directory = socket.gethostname(), self.directory
        return (
            "ClusterName=cadmus\n"
            f"SlurmctldHost={host}(127.0.0.1)\n"
            "SlurmUser=root\n"
            "AuthType=auth/munge\n"
            f"AuthInfo=cred_expire={REQUEUE_SECONDS},socket={directory}/munge/socket\n"
            "ProctrackType=proctrack/linuxproc\n"
            "TaskPlugin=task/none\n"
            "MpiDefault=none\n"
            "SelectType=select/cons_tres\n"
            "SelectTypeParameters=CR_Core_Memory\n"
            "GresTypes=gpu\n"
            "SlurmdParameters=config_overrides\n"
            "ReturnToService=2\n"
            "MinJobAge=300\n"
            "PreemptType=preempt/partition_prio\n"
            "PreemptMode=REQUEUE\n"
            f"StateSaveLocation={directory}/state\n"
            f"SlurmdSpoolDir={directory}/spool-%n\n"
            f"SlurmctldPidFile={directory}/slurmctld.pid\n"
            f"SlurmdPidFile={directory}/slurmd-%n.pid\n"
            f"SlurmctldLogFile={directory}/slurmctld.log\n"
            f"SlurmdLogFile={directory}/slurmd-%n.log\n"
            f"NodeName=node[1-2] NodeHostName={host} NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=32"
            f" RealMemory=64000 Gres=gpu:h100:{GPUS}\n"
            # Preempted jobs get SIGTERM two minutes before SIGKILL.
            "PartitionName=batch Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=120\n"
            "PartitionName=urgent Nodes=ALL State=UP PriorityTier=10\n"
        )

    def _run(self, *command: str, name: str | None = None) -> None:
        name = name or command[0]
        with (self.directory / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )

    def start_controller(self) -> None:
        self._run("slurmctld", "-D")

    def stop_controller(self) -> None:
        stop(self.processes.pop("slurmctld"))

    def __exit__(self, *error: object) -> None:
        if "slurmctld" in self.processes:
            subprocess.run(["scancel", "--user=root"], check=False)
            with suppress(TimeoutError):
                wait_for(lambda: not ask("squeue", "--noheader"), 60, "the jobs to end")
        for name in sorted(self.processes, key=lambda name: name == "munged"):
            stop(self.processes[name])
        for name in ("slurm.conf", "gres.conf"):
            path = CONFIGURATION / name
            if path.exists() and path.read_text().startswith(MARK):
                path.unlink()
        if error and error[0] not in (None, SystemExit):
            print(f"slurm-test: see the daemon logs in {self.directory}", file=sys.stderr)
        else:
            shutil.rmtree(self.directory)


def install() -> None:
    """Install SLURM from the distribution if it is missing, without starting it."""
    if all(shutil.which(name) for name in ("slurmctld", "slurmd", "srun", "munged")):
        return
    if not shutil.which("apt-get"):
        sys.exit(f"slurm-test: needs {', '.join(PACKAGES)}, or apt-get to install them")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES]
    print(f"slurm-test: {' '.join(command)}", flush=True)
    done = subprocess.run(
        command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"slurm-test: {done.stderr.strip().splitlines()[-1]}; try `apt-get update`")


def ask(*command: str) -> str:
    """Return the output of a SLURM command, empty if it fails."""
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def wait_for(condition, seconds: float, what: str) -> None:
    """Wait until ``condition()`` is true.

    Raises:
        TimeoutError: it is still false after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.2)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with SlurmCluster() as cluster, suppress(KeyboardInterrupt):
        print(f"SLURM cluster is running, Ctrl-C stops it; logs in {cluster.directory}", flush=True)
        signal.pause()
