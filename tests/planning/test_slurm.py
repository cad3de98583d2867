"""The training job, and the check of all jobs against the output of `sinfo`."""

import os
import re
from types import SimpleNamespace

import pytest
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string

from cadmus.errors import InputError
from cadmus.planning.slurm import Demand, check, hints, parse_partitions, read_partitions, training_job

SINFO = """\
cpu*|64|256000|(null)|1-00:00:00
cpu*|64|256000|(null)|1-00:00:00
gpu|32|512000|gpu:h100:8(S:0,1),shard:h100:16|2-12:30:00
gpu|32|512000|gpu:h100:8(S:0,1)|2-12:30:00
old|16|64000|gpu:4|infinite
"""
JOB = Demand("train", "", 1, 16, 8000, 0, "", 60)
GPUS = JOB._replace(partition="gpu", gpus=8, gpu_model="h100")


class Resources(dict):
    """Resources of a job, in the form that the plugin reads."""

    __getattr__ = dict.get


def sbatch_options(job):
    """Options that the plugin passes to `sbatch` for the training job."""
    fake = SimpleNamespace(threads=job.cores, resources=Resources(job.resources()))
    names = "run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir"
    call = get_submit_command(fake, dict.fromkeys(names, "")) + set_gres_string(fake)
    return set(re.findall(r"--(?:nodes|ntasks|ntasks-per-gpu|cpus-per-task|gres|gpus)=\S+", call))


@pytest.mark.parametrize(
    ("ranks", "site", "options"),
    [
        (
            1,
            {"train_nodes": 2, "train_gpus": 8},
            {"--nodes=2", "--ntasks=2", "--cpus-per-task=32", "--gres=gpu:4"},
        ),
        (
            8,
            {"train_nodes": 2, "train_gpu_model": "h100"},
            {"--nodes=2", "--ntasks=2", "--cpus-per-task=32", "--gres=gpu:h100:4"},
        ),
        (2, {"train_nodes": 1}, {"--nodes=1", "--cpus-per-task=16", "--gpus=2"}),
        (
            "auto",
            {"train_nodes": 1, "train_gpus": 1, "train_gpu_model": "h100"},
            {"--nodes=1", "--cpus-per-task=8", "--gpus=h100:1"},
        ),
        ("auto", {"train_nodes": 1}, {"--nodes=1", "--ntasks=1", "--cpus-per-task=16"}),
        (
            8,
            {"train_nodes": 1, "train_gpus": 0, "train_gpu_model": "h100"},
            {"--nodes=1", "--ntasks=1", "--cpus-per-task=16"},
        ),
    ],
)
def test_sbatch_options_of_the_training_job(ranks, site, options):
    assert sbatch_options(training_job(ranks, site)) == options


def test_gpu_partition_of_the_training_job():
    site = {"train_partition": "gpu"}
    assert training_job(1, site).resources()["slurm_partition"] == "gpu"
    assert "slurm_partition" not in training_job("auto", site).resources()


def test_memory_of_the_training_job():
    programs = 80_200_000
    job = training_job(8, {})
    assert job.memory(job.cores, programs) == 8 * 6_000 + 2_406
    assert training_job(8, {"train_nodes": 2}).memory(32, programs) == 4 * 6_000 + 2_406
    assert training_job("auto", {}).memory(4, programs) == 4 * 1_500 + 2_406


def test_parse_partitions():
    partitions = parse_partitions(SINFO)
    assert list(partitions) == ["cpu", "gpu", "old"]
    assert [partition.default for partition in partitions.values()] == [True, False, False]
    assert [partition.minutes for partition in partitions.values()] == [24 * 60, 60 * 60 + 30, None]
    assert [len(partition.nodes) for partition in partitions.values()] == [2, 2, 1]
    assert partitions["gpu"].nodes[0] == (32, 512000, {"h100": 8})
    assert partitions["old"].nodes[0].gpus == {"": 4}


@pytest.mark.parametrize(
    "demand",
    [
        JOB,
        GPUS,
        GPUS._replace(gpu_model=""),
        GPUS._replace(gpus=16, nodes=2),
        JOB._replace(partition="old", gpus=4, minutes=10**6),
    ],
)
def test_check_accepts_available_resources(demand):
    check([demand], parse_partitions(SINFO))


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        (
            JOB._replace(partition="fast"),
            "the cluster has no partition fast; set partition to one of cpu, gpu, old",
        ),
        (
            GPUS._replace(partition="fast"),
            "the cluster has no partition fast; set gpu_partition to one of cpu, gpu, old",
        ),
        (
            JOB._replace(gpus=1),
            "partition cpu has no GPUs; set gpu_partition to one of gpu, old",
        ),
        (
            GPUS._replace(gpu_model="a100"),
            "partition gpu has GPUs h100, not a100; set gpu_model",
        ),
        (
            GPUS._replace(gpus=16),
            "a node of partition gpu has at most 8 GPUs h100, not 16; set train_gpus, or more train_nodes,",
        ),
        (
            GPUS._replace(gpus=7, nodes=2),
            "2 nodes cannot share 7 GPUs equally; set train_gpus to a multiple of train_nodes",
        ),
        (GPUS._replace(gpus=24, nodes=3), "partition gpu has 2 such nodes, not 3; set train_nodes"),
        (
            JOB._replace(minutes=1441),
            "1441 minutes exceed the limit of 1440 of partition cpu; set longest or runtime",
        ),
        (
            JOB._replace(cores=65),
            "a node of partition cpu has at most 64 cores, not 65; change set-threads",
        ),
        (
            JOB._replace(memory=256_001),
            "a node of partition cpu has at most 256000 MB, not 256001; set mem_mb",
        ),
    ],
)
def test_check_names_missing_resources(demand, message):
    with pytest.raises(InputError) as error:
        check([JOB, demand], parse_partitions(SINFO))
    assert str(error.value) == f"rule train: {message} in workflow/profiles/slurm/config.yaml"


def test_check_without_default_partition_or_gpus():
    partitions = parse_partitions(SINFO.replace("*", ""))
    with pytest.raises(InputError, match="no default partition; set partition to one of cpu, gpu, old"):
        check([JOB], partitions)
    partitions = parse_partitions(SINFO.splitlines()[0])
    with pytest.raises(InputError, match="nor has another; set train_gpus and experiment_gpus to 0"):
        check([JOB._replace(gpus=1)], partitions)


def test_read_partitions_without_slurm(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="sinfo: not found; this profile is for the login node"):
        read_partitions()
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho away >&2\nexit 1\n")
    (tmp_path / "sinfo").chmod(0o755)
    with pytest.raises(InputError, match="sinfo: away; the SLURM cluster does not answer"):
        read_partitions()
    (tmp_path / "sinfo").write_text(f"#!/bin/sh\nprintf '{SINFO}'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list(read_partitions()) == ["cpu", "gpu", "old"]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            "job00005/slurm_script: 4: /shared/.venv/bin/python3: not found\n",
            "a node does not have /shared/.venv/bin/python3; install",
        ),
        ("MissingOutputException: ... Missing files after 5 seconds. This might", "raise latency-wait"),
        (
            "sbatch: error: Invalid account or account/partition combination specified'.",
            "set account in the profile",
        ),
        ("SLURM-job '7' failed, SLURM status is: 'OUT_OF_MEMORY'.", "raise mem_mb under set-resources"),
        ("failed: Unable to contact slurm controller (connect failure)", "run the same command again later"),
    ],
)
def test_hints_for_cluster_failures(log, line):
    (found,) = hints(f"Error in rule shard:\n{log}\n")
    assert line in found


def test_no_hints_for_other_failures():
    assert (
        hints("Error in rule train:\nLogfile results/tiny/logs/shard.log not found.\ncadmus: error: x\n")
        == []
    )
