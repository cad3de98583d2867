"""The job of the training on a SLURM cluster, and a check of all jobs before the first is submitted.

A job that asks for what no node has is refused by SLURM in words of its own, or waits for ever.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from cadmus.errors import InputError

PROFILE = "workflow/profiles/slurm/config.yaml"
"""Where a user mends it."""
FORMAT = "%P|%c|%m|%G|%l"
CORES_PER_GPU, CORES_WITHOUT_GPUS = 8, 16
"""Cores of a training on each node."""
MB_PER_GPU, MB_PER_CORE = 6_000, 1_500
"""Memory of a rank on a GPU, and of each core of a training on CPUs."""
BYTES_PER_PROGRAM = 30
"""Memory of a training program on each node, whose ranks map the same file."""


WAYS_OUT = (
    (
        r"(\S*python\S*): not found",
        "a node does not see {}: the environment has to lie in a directory that all nodes share",
    ),
    (
        r"(Missing files after \d+ seconds)",
        "{}, though the job wrote them: raise latency-wait in the profile, or see whether all nodes share "
        "this directory",
    ),
    (
        r"(Invalid account[^'\n]*)",
        "{}: set account in the profile to one of yours (`sacctmgr show associations user=$USER`)",
    ),
    (
        r"(OUT_OF_MEMORY|oom-kill|Out Of Memory)",
        "a job took more memory than it had asked for ({}): raise mem_mb under set-resources in the profile",
    ),
    (
        r"(Unable to contact slurm controller)",
        "{}: when it answers again, the same command goes on",
    ),
)
"""What the log of a failed run may hold, and what to say of it, ``{}`` being the group."""


class Node(NamedTuple):
    """A node as one partition sees it.

    Attributes:
        cores: of the node.
        memory: in MB.
        gpus: how many of each type; the type is "" where the cluster names none.
    """

    cores: int
    memory: int
    gpus: dict[str, int]

    def gpus_of(self, model: str) -> int:
        return self.gpus.get(model, 0) if model else sum(self.gpus.values())


class Partition(NamedTuple):
    """A partition.

    Attributes:
        default: whether jobs go there that name none.
        minutes: longest time of a job; None for no limit.
        nodes: that it has.
    """

    default: bool
    minutes: int | None
    nodes: list[Node]


class TrainingJob(NamedTuple):
    """The job of the training.

    Attributes:
        nodes: number of nodes.
        gpus: over all nodes; 0 for a training on CPUs, or for one that takes the GPUs it finds.
        gpu_model: type of the GPUs; "" for any.
        gpu_partition: partition of jobs with GPUs; "" for that of all jobs.
    """

    nodes: int
    gpus: int
    gpu_model: str
    gpu_partition: str

    @property
    def cores(self) -> int:
        """Cores on each node."""
        return CORES_PER_GPU * (self.gpus // self.nodes) or CORES_WITHOUT_GPUS

    def memory(self, cores: int, programs: int) -> int:
        """Memory on each node in MB, for so many cores and training programs."""
        ranks = MB_PER_GPU * -(-self.gpus // self.nodes) or MB_PER_CORE * cores
        return ranks + programs * BYTES_PER_PROGRAM // 10**6

    def resources(self) -> dict[str, int | str]:
        """Return the resources that Snakemake's SLURM plugin makes options of ``sbatch`` from."""
        asked: dict[str, int | str] = {"nodes": self.nodes, "train_gpus": self.gpus}
        if self.nodes > 1:
            # One launcher on each node, which starts the ranks there; srun is in the rule.
            asked |= {"mpi": "srun", "tasks": self.nodes, "tasks_per_gpu": 0}
        if not self.gpus:
            return asked
        if self.gpu_partition:
            asked["slurm_partition"] = self.gpu_partition
        if self.nodes > 1:
            # Of a total, SLURM may take 7 GPUs on one node and 1 on the other.
            model = f"{self.gpu_model}:" if self.gpu_model else ""
            asked["gres"] = f"gpu:{model}{self.gpus // self.nodes}"
        else:
            asked["gpu"] = self.gpus
            if self.gpu_model:
                asked["gpu_model"] = self.gpu_model
        return asked


def training_job(ranks: int | Literal["auto"], site: Mapping[str, Any]) -> TrainingJob:
    """Return the job of the training.

    Args:
        ranks: ``train.ranks`` of the config.
        site: what the profile sets for the rule ``train``, of which ``train_nodes``, ``train_gpus``,
            ``train_gpu_model`` and ``train_partition`` count; without ``train_gpus``, each rank has a GPU,
            and ``auto`` asks for none.
    """
    return TrainingJob(
        nodes=site.get("train_nodes", 1),
        gpus=site.get("train_gpus", 0 if ranks == "auto" else ranks),
        gpu_model=site.get("train_gpu_model", ""),
        gpu_partition=site.get("train_partition", ""),
    )


class Demand(NamedTuple):
    """What one job asks for.

    Attributes:
        rule: that the job is of.
        partition: "" for the default one.
        nodes: how many.
        cores, memory: on each node; memory in MB.
        gpus: over all nodes.
        gpu_model: type of the GPUs; "" for any.
        minutes: its time limit.
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
    """The partitions of this cluster by name.

    Raises:
        InputError: there is no SLURM here, or it does not answer.
    """
    # Those that are hidden as well: a job may go there all the same.
    command = ["sinfo", "--all", "--Node", "--noheader", f"--format={FORMAT}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except OSError:
        raise InputError(
            "there is no sinfo here; this profile is for the login node of a SLURM cluster, and "
            "`snakemake --cores all` is for this machine"
        ) from None
    except subprocess.CalledProcessError as error:
        raise InputError(f"the SLURM cluster does not answer: {error.stderr.strip()}") from None
    return parse_partitions(done.stdout)


def parse_partitions(text: str) -> dict[str, Partition]:
    """The partitions in what ``sinfo --Node`` prints with ``FORMAT``."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        name, cores, memory, resources, limit = line.split("|")
        partition = partitions.setdefault(
            name.rstrip("*"), Partition(name.endswith("*"), minutes_of(limit), [])
        )
        partition.nodes.append(Node(int(cores), int(memory), _gpus(resources)))
    return partitions


def _gpus(resources: str) -> dict[str, int]:
    """GPUs by type in a list such as ``gpu:h100:8(S:0,1),shard:16`` or ``gpu:2``."""
    gpus: dict[str, int] = {}
    # In brackets are the sockets that they belong to.
    for resource in re.sub(r"\([^)]*\)", "", resources).split(","):
        kind, *model, count = resource.split(":") if ":" in resource else (resource, "1")
        if kind == "gpu":
            key = "".join(model)
            gpus[key] = gpus.get(key, 0) + int(count)
    return gpus


def minutes_of(limit: str) -> int | None:
    """Minutes of a time as SLURM writes it; None for no limit.

    >>> minutes_of("1-12:00:00"), minutes_of("30:00"), minutes_of("infinite")
    (2160, 30, None)
    """
    numbers = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if numbers is None:
        return None
    days, hours, minutes, _ = (int(number or 0) for number in numbers.groups())
    return (24 * days + hours) * 60 + minutes


def check(demands: Iterable[Demand], partitions: dict[str, Partition]) -> None:
    """See that some nodes have what each job asks for.

    Raises:
        InputError: naming the first rule whose jobs could never run, what is there, and what to change.
    """
    for demand in demands:
        problem = _problem(demand, partitions)
        if problem:
            raise InputError(f"rule {demand.rule}: {problem} in {PROFILE}")


def ways_out(log: str) -> list[str]:
    """What to do about the failures that the log of a run tells of, as far as the cluster is to blame."""
    found = ((re.search(pattern, log), text) for pattern, text in WAYS_OUT)
    return [text.format(match[1]) for match, text in found if match]


def _problem(demand: Demand, partitions: dict[str, Partition]) -> str | None:
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
            f"{demand.minutes} minutes are more than the {partition.minutes} that partition {name} gives a "
            "job; set longest or runtime"
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
                way = f"has {', '.join(models)}; set gpu_model"
            elif elsewhere:
                way = f"has none at all; set gpu_partition to one of {', '.join(elsewhere)}"
            else:
                way = "has none at all, nor has another; set train_gpus and experiment_gpus to 0"
            return f"no node of partition {name} has a GPU{model}: it {way}"
        if most < gpus:
            return (
                f"{gpus} GPUs{model} on a node are more than the {most} that a node of partition {name} has; "
                "set train_gpus, or more train_nodes,"
            )
        nodes = [node for node in nodes if node.gpus_of(demand.gpu_model) >= gpus]
    if max(node.cores for node in nodes) < demand.cores:
        most = max(node.cores for node in nodes)
        return (
            f"{demand.cores} cores are more than the {most} of a node of partition {name}; change set-threads"
        )
    if max(node.memory for node in nodes) < demand.memory:
        most = max(node.memory for node in nodes)
        return f"{demand.memory} MB are more than the {most} of a node of partition {name}; set mem_mb"
    if len(nodes) < demand.nodes:
        return f"partition {name} has {len(nodes)} such nodes, not {demand.nodes}; set train_nodes"
    return None
