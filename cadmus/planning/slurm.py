"""The training job on a SLURM cluster, and a check of all jobs before submission.

SLURM lets a job that no node can run wait forever, or refuses it with an unhelpful message.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from cadmus.errors import InputError

PROFILE = "workflow/profiles/slurm/config.yaml"
"""Profile that the messages refer to."""
FORMAT = "%P|%c|%m|%G|%l"
CORES_PER_GPU, CORES_WITHOUT_GPUS = 8, 16
"""Cores of a training job, per GPU, or per node without GPUs."""
MB_PER_GPU, MB_PER_CORE = 6_000, 1_500
"""Memory of a rank, on a GPU or per core."""
BYTES_PER_PROGRAM = 30
"""Memory of a training program per node; the ranks of a node share it."""

HINTS = (
    (
        r"(\S*python\S*): not found",
        "a node does not have {}; install the environment in a directory that all nodes share",
    ),
    (
        r"(Missing files after \d+ seconds)",
        "{}, although the job wrote them; raise latency-wait in the profile, or check that all nodes share "
        "this directory",
    ),
    (
        r"(Invalid account[^'\n]*)",
        "{}; set account in the profile to one of yours (`sacctmgr show associations user=$USER`)",
    ),
    (
        r"(OUT_OF_MEMORY|oom-kill|Out Of Memory)",
        "a job exceeded its memory ({}); raise mem_mb under set-resources in the profile",
    ),
    (
        r"(Unable to contact slurm controller)",
        "{}; run the same command again later to resume",
    ),
)
"""Patterns in the log of a failed run and their messages; ``{}`` is the matched group."""


class Node(NamedTuple):
    """A node of a partition.

    Attributes:
        cores: number of cores.
        memory: in MB.
        gpus: number of GPUs by type; the type is "" if the cluster does not name it.
    """

    cores: int
    memory: int
    gpus: dict[str, int]

    def gpus_of(self, model: str) -> int:
        return self.gpus.get(model, 0) if model else sum(self.gpus.values())


class Partition(NamedTuple):
    """A partition.

    Attributes:
        default: True for the partition of jobs that name none.
        minutes: time limit of a job; None for no limit.
        nodes: its nodes.
    """

    default: bool
    minutes: int | None
    nodes: list[Node]


class TrainingJob(NamedTuple):
    """The training job.

    Attributes:
        nodes: number of nodes.
        gpus: over all nodes; 0 on CPUs, or to use the GPUs that are visible.
        gpu_model: type of the GPUs; "" for any.
        gpu_partition: partition of jobs with GPUs; "" for that of all jobs.
    """

    nodes: int
    gpus: int
    gpu_model: str
    gpu_partition: str

    @property
    def cores(self) -> int:
        """Cores per node."""
        return CORES_PER_GPU * (self.gpus // self.nodes) or CORES_WITHOUT_GPUS

    def memory(self, cores: int, programs: int) -> int:
        """Return the memory per node in MB.

        Args:
            cores: cores per node.
            programs: training programs.
        """
        ranks = MB_PER_GPU * -(-self.gpus // self.nodes) or MB_PER_CORE * cores
        return ranks + programs * BYTES_PER_PROGRAM // 10**6

    def resources(self) -> dict[str, int | str]:
        """Return the resources that Snakemake's SLURM plugin converts to ``sbatch`` options."""
        asked: dict[str, int | str] = {"nodes": self.nodes, "train_gpus": self.gpus}
        if self.nodes > 1:
            # One launcher per node, which starts its ranks; the rule calls srun.
            asked |= {"mpi": "srun", "tasks": self.nodes, "tasks_per_gpu": 0}
        if not self.gpus:
            return asked
        if self.gpu_partition:
            asked["slurm_partition"] = self.gpu_partition
        if self.nodes > 1:
            # SLURM may split a total unevenly, such as 7 GPUs on one node and 1 on the other.
            model = f"{self.gpu_model}:" if self.gpu_model else ""
            asked["gres"] = f"gpu:{model}{self.gpus // self.nodes}"
        else:
            asked["gpu"] = self.gpus
            if self.gpu_model:
                asked["gpu_model"] = self.gpu_model
        return asked


def training_job(ranks: int | Literal["auto"], site: Mapping[str, Any]) -> TrainingJob:
    """Return the training job.

    Args:
        ranks: ``train.ranks`` of the config.
        site: resources that the profile sets for the rule ``train``; reads ``train_nodes``, ``train_gpus``,
            ``train_gpu_model`` and ``train_partition``. ``train_gpus`` is one per rank by default, none for
            ``auto``.
    """
    return TrainingJob(
        nodes=site.get("train_nodes", 1),
        gpus=site.get("train_gpus", 0 if ranks == "auto" else ranks),
        gpu_model=site.get("train_gpu_model", ""),
        gpu_partition=site.get("train_partition", ""),
    )


class Demand(NamedTuple):
    """Resources that a job requests.

    Attributes:
        rule: rule of the job.
        partition: "" for the default partition.
        nodes: number of nodes.
        cores, memory: per node; memory in MB.
        gpus: over all nodes.
        gpu_model: type of the GPUs; "" for any.
        minutes: time limit.
    """

    rule: str
    partition: str
    nodes: int
    cores: int
    memory: int
    gpus: int
    gpu_model: str
    minutes: int


def read_partitions() -> dict[str, Partition]:
    """Return the partitions of this cluster by name.

    Raises:
        InputError: SLURM is not installed or does not answer.
    """
    # --all includes hidden partitions, which accept jobs too.
    command = ["sinfo", "--all", "--Node", "--noheader", f"--format={FORMAT}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except OSError:
        raise InputError(
            "sinfo: not found; this profile is for the login node of a SLURM cluster, use "
            "`snakemake --cores all` on other machines"
        ) from None
    except subprocess.CalledProcessError as error:
        raise InputError(f"sinfo: {error.stderr.strip()}; the SLURM cluster does not answer") from None
    return parse_partitions(done.stdout)


def parse_partitions(text: str) -> dict[str, Partition]:
    """Parse the output of ``sinfo --Node`` in ``FORMAT``."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        name, cores, memory, resources, limit = line.split("|")
        partition = partitions.setdefault(
            name.rstrip("*"), Partition(name.endswith("*"), minutes_of(limit), [])
        )
        partition.nodes.append(Node(int(cores), int(memory), _gpus(resources)))
    return partitions


def _gpus(resources: str) -> dict[str, int]:
    """Return GPUs by type from a list such as ``gpu:h100:8(S:0,1),shard:16`` or ``gpu:2``."""
    gpus: dict[str, int] = {}
    # Sockets are in parentheses.
    for resource in re.sub(r"\([^)]*\)", "", resources).split(","):
        kind, *model, count = resource.split(":") if ":" in resource else (resource, "1")
        if kind == "gpu":
            key = "".join(model)
            gpus[key] = gpus.get(key, 0) + int(count)
    return gpus


def minutes_of(limit: str) -> int | None:
    """Return the minutes of a SLURM time limit; None for no limit.

    >>> minutes_of("1-12:00:00"), minutes_of("30:00"), minutes_of("infinite")
    (2160, 30, None)
    """
    numbers = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if numbers is None:
        return None
    days, hours, minutes, _ = (int(number or 0) for number in numbers.groups())
    return (24 * days + hours) * 60 + minutes


def check(demands: Iterable[Demand], partitions: dict[str, Partition]) -> None:
    """Check that the cluster can run each job.

    Raises:
        InputError: the first rule whose jobs could never run, what the cluster has, and what to change.
    """
    for demand in demands:
        problem = _problem(demand, partitions)
        if problem:
            raise InputError(f"rule {demand.rule}: {problem} in {PROFILE}")


def hints(log: str) -> list[str]:
    """Return what to do about cluster failures in the log of a run."""
    found = ((re.search(pattern, log), text) for pattern, text in HINTS)
    return [text.format(match[1]) for match, text in found if match]


def _problem(demand: Demand, partitions: dict[str, Partition]) -> str | None:
    """Return why the job could never run and which setting to change; None if it can."""
    variable = "gpu_partition" if demand.gpus else "partition"
    name = demand.partition or next((name for name, one in partitions.items() if one.default), "")
    there = ", ".join(partitions)
    if not name:
        return f"the cluster has no default partition; set {variable} to one of {there}"
    if name not in partitions:
        return f"the cluster has no partition {name}; set {variable} to one of {there}"
    partition = partitions[name]
    if partition.minutes is not None and demand.minutes > partition.minutes:
        return (
            f"{demand.minutes} minutes exceed the limit of {partition.minutes} of partition {name}; "
            "set longest or runtime"
        )
    gpus, rest = divmod(demand.gpus, demand.nodes)
    if rest:
        return (
            f"{demand.nodes} nodes cannot share {demand.gpus} GPUs equally; set train_gpus to a multiple of "
            "train_nodes"
        )
    nodes = partition.nodes
    if gpus:
        model = f" {demand.gpu_model}" if demand.gpu_model else ""
        most = max(node.gpus_of(demand.gpu_model) for node in nodes)
        models = sorted({model for node in nodes for model in node.gpus if model})
        if not most:
            elsewhere = [name for name, one in partitions.items() if any(node.gpus for node in one.nodes)]
            if models:
                return f"partition {name} has GPUs {', '.join(models)}, not{model}; set gpu_model"
            if elsewhere:
                fix = f"set gpu_partition to one of {', '.join(elsewhere)}"
            else:
                fix = "nor has another; set train_gpus and experiment_gpus to 0"
            return f"partition {name} has no GPUs; {fix}"
        if most < gpus:
            return (
                f"a node of partition {name} has at most {most} GPUs{model}, not {gpus}; "
                "set train_gpus, or more train_nodes,"
            )
        nodes = [node for node in nodes if node.gpus_of(demand.gpu_model) >= gpus]
    cores, memory = max(node.cores for node in nodes), max(node.memory for node in nodes)
    if cores < demand.cores:
        return f"a node of partition {name} has at most {cores} cores, not {demand.cores}; change set-threads"
    if memory < demand.memory:
        return f"a node of partition {name} has at most {memory} MB, not {demand.memory}; set mem_mb"
    if len(nodes) < demand.nodes:
        return f"partition {name} has {len(nodes)} such nodes, not {demand.nodes}; set train_nodes"
    return None
