"""Training programs, read once per node into files that all its ranks map into memory.

Batches take programs from anywhere in the training set, so every rank needs all of it; a node holds it once,
in memory that the system can reclaim.
"""

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np
from torch import distributed

from cadmus import store
from cadmus.errors import InputError
from cadmus.programs import Programs, Samples

ReadSplit = Callable[[Collection[str] | None], Iterable[Samples]]
"""Returns the training programs of some templates, or all, in parts."""
_FILES = {"bytes": np.uint8, "offsets": np.int64, "prompt_lengths": np.uint8}
"""Types of the arrays that the ranks of a node share, by the name of their file."""


def share(read: ReadSplit) -> Samples:
    """Return the training programs of all templates.

    All ranks call this together, and all raise the InputError of one; the first of each node calls ``read``.
    """
    local_rank = int(os.environ["LOCAL_RANK"])
    with ExitStack() as stack:
        # The directory of this node, or the error of its first rank.
        own: Any = None
        if local_rank == 0:
            try:
                with store.as_input_error(Path(gettempdir(), "training programs")):
                    own = Path(stack.enter_context(TemporaryDirectory(prefix="cadmus-")))
                    _write(own, read)
            except InputError as error:
                own = error
        by_rank = [own] * distributed.get_world_size()
        distributed.all_gather_object(by_rank, own)
        for result in by_rank:
            if isinstance(result, InputError):
                raise result
        # That of the first rank of this node.
        shared = by_rank[distributed.get_rank() - local_rank]
        data, offsets, prompt_lengths = (
            np.memmap(shared / name, dtype, "r").view(np.ndarray) for name, dtype in _FILES.items()
        )
        # Mapped files outlive their names.
        distributed.barrier()
    return Samples(Programs(data, offsets), prompt_lengths)


def _write(directory: Path, read: ReadSplit) -> None:
    """Write training programs as arrays; part by part, as all of them may not fit into memory twice."""
    end = np.zeros(1, np.int64)
    with ExitStack() as stack:
        data, offsets, prompts = (stack.enter_context((directory / name).open("wb")) for name in _FILES)
        offsets.write(end.data)
        for samples in read(None):
            programs = samples.programs
            data.write(np.ascontiguousarray(programs.data).data)
            offsets.write((programs.offsets[1:] - programs.offsets[0] + end).data)
            prompts.write(np.ascontiguousarray(samples.prompt_length).data)
            end = end + programs.lengths.sum()
