"""Training programs in files that all ranks of a node map into memory."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO

import numpy as np
from torch import distributed

from cadmus.common.files import as_input_error
from cadmus.errors import InputError
from cadmus.programs import Programs, Samples

Read = Callable[[Collection[str] | None], Iterable[Samples]]
"""Returns the training programs of some templates, or all, in parts."""


def share(read: Read, max_length: int, templates: list[str] | None = None) -> tuple[Samples, list[int]]:
    """Read the training programs once per node; all ranks call this together.

    The first rank of a node writes them to temporary files, which all its ranks map: a node holds them once,
    in memory that the system can reclaim.

    Args:
        read: called on the first rank of each node.
        max_length: maximum number of instructions in a program.
        templates: read one after another; all together if None.

    Returns:
        The programs, and the number of them of each template, or of all together.

    Raises:
        InputError: on all ranks: ``read`` raised it, the dataset is empty, a program is too long, or the
            temporary directory (``TMPDIR``) is full.
    """
    with ExitStack() as stack:
        paths: dict[str, str] = {}
        counts: list[int] = []
        problem = None
        if os.environ["LOCAL_RANK"] == "0":
            try:
                paths, counts = _write(read, max_length, templates, stack)
            except InputError as error:
                problem = str(error)
        own = paths, counts, problem
        results: list[tuple[dict[str, str], list[int], str | None]] = [own] * distributed.get_world_size()
        distributed.all_gather_object(results, own)
        for _, _, problem in results:
            if problem is not None:
                raise InputError(problem)
        paths, counts, _ = results[distributed.get_rank() - int(os.environ["LOCAL_RANK"])]
        training_set = _map(paths)
        # The first rank may close the files once every rank has mapped them.
        distributed.barrier()
    return training_set, counts


_FILES = {"bytes": np.uint8, "offsets": np.int64, "prompt_lengths": np.uint8}


def _write(
    read: Read, max_length: int, templates: list[str] | None, stack: ExitStack
) -> tuple[dict[str, str], list[int]]:
    """Write the programs to unnamed files, which vanish with their last user.

    Returns:
        Paths to open the files, and the number of programs of each template.
    """
    with as_input_error(Path(gettempdir(), "training programs")):
        # Unbuffered, so that closing them cannot fail.
        files = {name: stack.enter_context(TemporaryFile(buffering=0)) for name in _FILES}  # noqa: SIM115
        _append(files["offsets"], np.zeros(1, np.int64))
        end = 0
        counts: list[int] = []
        for number, samples in _parts(read, templates):
            counts += [0] * (number + 1 - len(counts))
            counts[number] += len(samples)
            programs = samples.programs
            longest = programs.lengths.max(initial=0)
            if longest > max_length:
                raise InputError(
                    f"dataset.max_length: is {max_length}, but the dataset has a program of {longest} "
                    "instructions; sample again"
                )
            offsets = programs.offsets - programs.offsets[0] + end
            end = offsets[-1]
            _append(files["bytes"], np.ascontiguousarray(programs.data))
            _append(files["offsets"], offsets[1:])
            _append(files["prompt_lengths"], samples.prompt_length)
    if not end:
        raise InputError("the dataset has no training programs")
    return {name: f"/proc/{os.getpid()}/fd/{file.fileno()}" for name, file in files.items()}, counts


def _parts(read: Read, templates: list[str] | None) -> Iterator[tuple[int, Samples]]:
    """Yield the programs in parts, with the number of their template; 0 for all together."""
    for number, asked in enumerate([None] if templates is None else [[name] for name in templates]):
        for samples in read(asked):
            yield number, samples


def _append(file: IO[bytes], array: np.ndarray) -> None:
    left = array.data.cast("B")
    while left:
        left = left[file.write(left) :]


def _map(paths: dict[str, str]) -> Samples:
    data, offsets, prompt_lengths = (
        np.memmap(paths[name], dtype, "r").view(np.ndarray) for name, dtype in _FILES.items()
    )
    return Samples(Programs(data, offsets), prompt_lengths)
