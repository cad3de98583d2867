"""Training on SLURM, with stubs of its commands; `make slurm-test` runs real ones."""

import os
import re
from pathlib import Path

import pytest

from cadmus.train import ranks
from tests.checkout import ROOT, copy_checkout, snakemake
from tests.commands import refused

MODEL = "results/tiny/model/meta.json"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Write stubs of `squeue`, with a fixed state, and `scontrol`; return the file with their arguments."""
    told = tmp_path / "told"

    def make(state: str, code: int = 0) -> Path:
        for name, answer in (("squeue", f"echo {state}"), ("scontrol", f"echo no such job >&2; exit {code}")):
            path = tmp_path / name
            path.write_text(f'#!/bin/sh\necho {name} "$@" >> {told}\n{answer}\n')
            path.chmod(0o755)
        return told

    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return make


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def printed(checkout, tmp_path):
    """Run the tiny config with the profile, and other site settings up to the model; return its output."""
    # The plugin looks for squeue when it is loaded.
    stub = tmp_path / "squeue"
    stub.write_text("#!/bin/sh\n")
    stub.chmod(0o755)

    def run(site: dict, *options: str, code: int = 0) -> str:
        text = (ROOT / "workflow/profiles/slurm/config.yaml").read_text()
        for name, value in site.items():
            text = re.sub(rf"^  {name}: .*$", f"  {name}: {value}", text, flags=re.MULTILINE)
        (checkout / "workflow/profiles/slurm/config.yaml").write_text(text)
        # A node has more cores than this machine.
        arguments = ("--cores", "64", "--profile", "workflow/profiles/slurm", *options, "--", MODEL)
        return snakemake(checkout, *arguments, code=code, PATH=f"{tmp_path}:{os.environ['PATH']}")

    return run


@pytest.mark.parametrize(
    ("site", "asked"),
    [
        # 1.5 GB for each core, and the model.
        ({"train_gpus": 0}, {"threads: 16", "nodes=1", "train_gpus=0", "mem_mb=24015"}),
        (
            {"train_gpus": 2, "gpu_model": "h100"},
            {"threads: 16", "nodes=1", "train_gpus=2", "gpu=2", "gpu_model=h100", "mem_mb=12000"},
        ),
        (
            {"train_gpus": 4, "gpu_partition": "gpu"},
            {"threads: 32", "nodes=1", "train_gpus=4", "gpu=4", "slurm_partition=gpu"},
        ),
    ],
)
def test_profile_sets_the_resources_of_the_training_job(printed, site, asked):
    job = printed(site, "--dry-run", "--printshellcmds").split("rule train:")[1]
    resources = re.search(r"resources: (.*)", job)[1].split(", ")
    assert asked <= {re.search(r"threads: \d+", job)[0], *resources}
    assert f"--ranks {site.get('train_gpus', 0)} " in job


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "CANCELLED", "TIMEOUT"])
def test_only_a_running_job_is_requeued(commands, state):
    told = commands(state)
    assert ranks.requeue() == (None if state == "RUNNING" else f"job 4711 is {state}")
    assert ("scontrol requeue 4711" in told.read_text().splitlines()) == (state == "RUNNING")


def test_requeue_failures(commands, monkeypatch):
    commands("RUNNING", code=1)
    assert ranks.requeue() == "scontrol requeue 4711: no such job"
    monkeypatch.setenv("PATH", "")
    assert ranks.requeue() == "squeue: No such file or directory"
    monkeypatch.delenv("SLURM_JOB_ID")
    assert ranks.requeue() == "this is not a SLURM job"


def test_ranks_must_divide_the_batch(tmp_path):
    files = {name: tmp_path / name for name in ("dataset", "checkpoints", "output", "metrics")}
    message = refused("train", config=ROOT / "tests/tiny.yaml", ranks=3, **files)
    assert re.match(r"--ranks 3: train\.batch_size: .* multiple of ranks 3, got 64", message)
