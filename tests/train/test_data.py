"""Training programs, read once per node into files that its ranks map."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from torch import distributed

from cadmus.errors import InputError
from cadmus.programs import Programs, Samples, offsets_of
from cadmus.train import data
from tests.train.runs import PROCESSES, finish, free_port

PARTS = [
    Samples(Programs.from_strings(["34+7=", "12+0>"]), np.array([4, 3], np.uint8)),
    Samples(Programs.from_strings(["u", "55="]), np.array([0, 2], np.uint8)),
]


def share_as_rank(directory: Path, rank: int, node: int, local_rank: int, port: int, problem: str) -> None:
    """One of four ranks of two nodes; what it saw goes to a file of its own."""
    os.environ.update(LOCAL_RANK=str(local_rank), TMPDIR=str(directory / f"node-{node}"))
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=4, rank=rank)
    reads = []

    def read(templates):
        reads.append(rank)
        if problem and node == 1:
            raise InputError(problem)
        return PARTS

    try:
        samples = data.share(read)
        # The files may be gone by now; what is mapped stays.
        (directory / f"seen-{rank}").write_text(
            f"{samples.programs.to_strings()} {samples.prompt_length.tolist()} {len(reads)}"
        )
    except InputError as error:
        (directory / f"seen-{rank}").write_text(str(error))
    distributed.destroy_process_group()


@pytest.mark.parametrize("problem", ["", "no such dataset"])
def test_the_first_rank_of_a_node_reads_for_all_of_its_ranks(tmp_path, problem):
    for node in (0, 1):
        (tmp_path / f"node-{node}").mkdir()
    port = free_port()
    ranks = [(tmp_path, rank, rank // 2, rank % 2, port, problem) for rank in range(4)]
    processes = [PROCESSES.Process(target=share_as_rank, args=arguments) for arguments in ranks]
    for process in processes:
        process.start()
    assert [finish(process) for process in processes] == [0] * 4
    programs = "['34+7=', '12+0>', 'u', '55='] [4, 3, 0, 2]"
    for rank in range(4):
        said = problem or f"{programs} {int(rank % 2 == 0)}"
        assert (tmp_path / f"seen-{rank}").read_text() == said
    assert not list(tmp_path.glob("node-*/*"))


def test_taking_programs_does_not_read_the_others():
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
