"""The training programs: read once per node, in files that its ranks map."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

from cadmus import config
from cadmus.errors import InputError
from cadmus.programs import Programs, Samples, offsets_of
from cadmus.train import data, launch
from cadmus.train.loader import Loader
from cadmus.train.slurm import Nodes
from tests.test_train import PROCESSES, finish, free_port

PARTS = [
    Samples(Programs.from_strings(["34+7=", "12+0>"]), np.array([4, 3], np.uint8)),
    Samples(Programs.from_strings(["u", "55="]), np.array([0, 2], np.uint8)),
]


def share_as_rank(directory: Path, rank: int, node: int, local_rank: int, port: int, problem: str) -> None:
    """One of four ranks of two nodes; what it saw goes to a file of its own."""
    os.environ.update(LOCAL_RANK=str(local_rank), TMPDIR=str(directory / f"node-{node}"))
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=4, rank=rank)
    reads = []

    def read():
        reads.append(rank)
        if problem and node == 1:
            raise InputError(problem)
        return PARTS

    try:
        samples = data.share(read, max_length=5)
        left = os.listdir(os.environ["TMPDIR"])
        (directory / f"seen-{rank}").write_text(
            f"{samples.programs.to_strings()} {samples.prompt_length.tolist()} {len(reads)} {left}"
        )
    except InputError as error:
        (directory / f"seen-{rank}").write_text(str(error))
    distributed.destroy_process_group()


@pytest.mark.parametrize("problem", ["", "no such dataset"])
def test_the_first_rank_of_a_node_reads_for_all_of_its_ranks(tmp_path, problem):
    for node in (0, 1):
        (tmp_path / f"node-{node}").mkdir()
    port = free_port()
    processes = [
        PROCESSES.Process(target=share_as_rank, args=(tmp_path, 2 * node + local, node, local, port, problem))
        for node in (0, 1)
        for local in (0, 1)
    ]
    for process in processes:
        process.start()
    assert [finish(process) for process in processes] == [0] * 4
    programs = "['34+7=', '12+0>', 'u', '55='] [4, 3, 0, 2]"
    for rank in range(4):
        said = problem or f"{programs} {int(rank % 2 == 0)} []"
        assert (tmp_path / f"seen-{rank}").read_text() == said


@pytest.mark.parametrize(
    ("parts", "max_length", "message"),
    [
        ([], 5, "the dataset has no training programs"),
        (PARTS, 4, "dataset.max_length: is 4, but the dataset has a program of 5 instructions; sample again"),
    ],
)
def test_programs_that_cannot_be_trained_on_are_refused(monkeypatch, parts, max_length, message):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(distributed, "all_gather_object", lambda said, own: said.__setitem__(0, own))
    with pytest.raises(InputError, match=f"^{message}$"):
        data.share(lambda: parts, max_length)


def test_taking_programs_does_not_look_at_the_others():
    lengths = np.full(2_000_000, 20, np.int64)
    programs = Programs(np.zeros(lengths.sum(), np.uint8), offsets_of(lengths))
    rows = np.arange(0, len(programs), 20_000)
    programs.take(rows)
    tracemalloc.start()
    try:
        taken = programs.take(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken.lengths.tolist() == [20] * 100
    assert peak < 100_000


def test_a_batch_counts_the_tokens_and_pairs_of_all_ranks():
    strings = ["34+7=", "u", "12+0>", "55="]
    training_set = Samples(Programs.from_strings(strings), np.full(4, 2, np.uint8))
    batches = [
        Loader(training_set, 0, config.Train(steps=1, batch_size=4), 16, rank, ranks=2).load(0)
        for rank in (0, 1)
    ]
    tokens = [len(string) + 1 for string in strings]
    for batch in batches:
        assert batch.tokens == sum(tokens)
        # Each token attends to itself and to those before it in its program.
        assert batch.pairs == sum(count * (count + 1) // 2 for count in tokens)
        assert batch.targets == sum(map(len, strings))
    assert sum(batch.micro_batches[0].programs for batch in batches) == 4


def ranks(cores: int, gpus: int = 0, nodes: Nodes | None = None, **train) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)
        patch.setattr(launch, "cores", lambda: cores)
        patch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        patch.setattr(torch.cuda, "device_count", lambda: gpus)
        return launch.count_ranks(config.Train(steps=1, **train), nodes)


def test_there_is_a_rank_for_each_gpu_or_core():
    nodes = Nodes(2, 0, "127.0.0.1:1", "1")
    assert ranks(2) == 2
    assert ranks(1) == 1
    assert ranks(16, gpus=4) == 4
    assert ranks(16, gpus=4, nodes=nodes) == 8
    assert ranks(4, nodes=nodes) == 8
    assert ranks(2, ranks=8) == 8


def test_ranks_share_the_batch_equally():
    assert ranks(3, batch_size=256) == 2
    assert ranks(4, batch_size=256, micro_batch_size=128) == 2
    assert ranks(8, gpus=7, batch_size=1024) == 4
    assert ranks(5, batch_size=64) == 2, "a rank has 32 programs at least"
    assert ranks(5, batch_size=7) == 1


def test_ranks_keep_to_the_cores_that_snakemake_gives(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(launch, "cores", lambda: 8)
    for threads, count in (("2", 2), ("16", 8), ("", 8), ("0", 8), ("2,1", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert launch.count_ranks(config.Train(steps=1)) == count
