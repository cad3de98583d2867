"""Training programs, which every rank reads."""

from pathlib import Path

import numpy as np
import pytest
from torch import distributed

from cadmus.errors import InputError
from cadmus.programs import Programs, Samples
from cadmus.train import data
from tests.train.runs import PROCESSES, finish, free_port

PARTS = [
    Samples(Programs.from_strings(["34+7=", "12+0>"]), np.array([4, 3], np.uint8)),
    Samples(Programs.from_strings(["u", "55="]), np.array([0, 2], np.uint8)),
]


def read_as_rank(directory: Path, rank: int, port: int, problem: str) -> None:
    """One of two ranks; what it saw goes to a file of its own."""
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=2, rank=rank)

    def read(templates):
        if problem and rank == 1:
            raise InputError(problem)
        return PARTS

    try:
        samples = data.read_all(read)
        said = f"{samples.programs.to_strings()} {samples.prompt_length.tolist()}"
    except InputError as error:
        said = str(error)
    (directory / f"seen-{rank}").write_text(said)
    distributed.destroy_process_group()


@pytest.mark.parametrize("problem", ["", "no such dataset"])
def test_all_ranks_have_the_programs_or_the_error_of_one(tmp_path, problem):
    port = free_port()
    ranks = [(tmp_path, rank, port, problem) for rank in range(2)]
    processes = [PROCESSES.Process(target=read_as_rank, args=arguments) for arguments in ranks]
    for process in processes:
        process.start()
    assert [finish(process) for process in processes] == [0] * 2
    for rank in range(2):
        programs = "['34+7=', '12+0>', 'u', '55='] [4, 3, 0, 2]"
        assert (tmp_path / f"seen-{rank}").read_text() == (problem or programs)
