"""Training on SLURM, with stubs of its commands; `make slurm-test` runs real ones."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cadmus.errors import InputError
from cadmus.train import ranks
from dev.measure import PATIENCE
from tests.checkout import ROOT, copy_checkout, snakemake
from tests.commands import refused
from tests.train.runs import free_port

MODEL = "results/tiny/model/meta.json"
STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_NODEID": "1",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7",
}


@pytest.fixture
def step(monkeypatch):
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def commands(tmp_path, monkeypatch, step):
    """Write stubs of `squeue`, with a fixed state, and `scontrol`; return the file with their arguments."""
    told = tmp_path / "told"

    def make(state: str, code: int = 0) -> Path:
        for name, answer in (("squeue", f"echo {state}"), ("scontrol", f"echo no such job >&2; exit {code}")):
            path = tmp_path / name
            path.write_text(f'#!/bin/sh\necho {name} "$@" >> {told}\n{answer}\n')
            path.chmod(0o755)
        return told

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
        ({"train_gpus": 0}, {"threads: 16", "nodes=1", "train_gpus=0", "mem_mb=24013"}),
        (
            {"train_gpus": 2, "gpu_model": "h100"},
            {"threads: 16", "nodes=1", "train_gpus=2", "gpu=2", "gpu_model=h100", "mem_mb=12000"},
        ),
        (
            {"train_gpus": 8, "train_nodes": 2, "gpu_model": "h100", "gpu_partition": "gpu"},
            {"threads: 32", "nodes=2", "train_gpus=8", "gres=gpu:h100:4", "tasks=2", "slurm_partition=gpu"},
        ),
    ],
)
def test_profile_sets_the_resources_of_the_training_job(printed, site, asked):
    job = printed(site, "--dry-run", "--printshellcmds").split("rule train:")[1]
    resources = re.search(r"resources: (.*)", job)[1].split(", ")
    assert asked <= {re.search(r"threads: \d+", job)[0], *resources}
    assert f"--ranks {site.get('train_gpus', 0)} " in job


def test_uneven_gpus_are_refused_before_submission(printed):
    output = printed({"train_gpus": 7, "train_nodes": 2}, code=1)
    line = "2 nodes cannot share 7 GPUs equally; set train_gpus to a multiple of train_nodes"
    assert f"\n{line}\n" in output
    assert "Submitted" not in output


def test_nodes_of_a_step(monkeypatch, step):
    assert ranks.slurm_nodes() == ranks.Nodes(2, 1, "10.0.0.7:24711", "4711")
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "1")
    assert ranks.slurm_nodes() is None
    for name in STEP:
        monkeypatch.delenv(name)
    assert ranks.slurm_nodes() is None


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


def test_ranks_of_two_nodes_connect(tmp_path):
    (tmp_path / "rank.py").write_text(
        "import json, os, sys\n"
        "names = 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'\n"
        "told = [*(os.environ[name] for name in names), sys.argv[1]]\n"
        "open('told-' + os.environ['RANK'], 'w').write(json.dumps(told))\n"
    )
    endpoint = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = []
    for node in range(2):
        code = (
            "import sys; from cadmus.train import ranks; "
            f"nodes = ranks.Nodes(2, {node}, {endpoint!r}, '1'); "
            f"sys.exit(ranks.run_ranks([sys.executable, 'rank.py', 'node{node}'], 4, nodes))"
        )
        processes.append(subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment))
    try:
        assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank in range(4):
        told = json.loads((tmp_path / f"told-{rank}").read_text())
        assert told == [str(rank % 2), "4", *endpoint.split(":"), f"node{rank // 2}"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_says_what_it_waits_for_and_a_signal_ends_it(tmp_path, number):
    code = (
        "import signal; from cadmus.train import ranks\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"ranks.run_ranks(['true'], 2, ranks.Nodes(2, 0, '127.0.0.1:{free_port()}', '1'))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline().startswith("waiting for node 2 of 2 at 127.0.0.1:")
        process.send_signal(number)
        assert process.wait(PATIENCE) in (-number, 1)


def test_a_node_that_does_not_come_is_one_line(monkeypatch):
    monkeypatch.setattr(ranks, "PATIENCE_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"^node 2 of 2 has not started within 0\.5 s, at 127"):
        ranks.wait_for_nodes(ranks.Nodes(2, 0, f"127.0.0.1:{free_port()}", "1"))


def test_uneven_ranks_are_refused():
    with pytest.raises(InputError, match="3 ranks cannot be shared equally by the 2 nodes of job 1"):
        ranks.run_ranks(["true"], 3, ranks.Nodes(2, 0, "127.0.0.1:1", "1"))


def test_ranks_must_divide_the_batch(tmp_path):
    files = {name: tmp_path / name for name in ("dataset", "checkpoints", "output", "metrics")}
    message = refused("train", config=ROOT / "tests/tiny.yaml", ranks=3, **files)
    assert re.match(r"--ranks 3: train\.batch_size: .* multiple of ranks 3, got 64", message)
