"""Errors of a training, as one line for the user."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed

from cadmus import config
from cadmus.errors import InputError, RankLocalError


@contextmanager
def rank_local_errors() -> Iterator[None]:
    """Raise any InputError as RankLocalError, in code where only one rank may fail."""
    try:
        yield
    except InputError as error:
        raise RankLocalError(str(error)) from None


@contextmanager
def memory_errors(run: config.Config, what: str) -> Iterator[None]:
    """Raise running out of memory, on the CPU or the GPU, as RankLocalError.

    Args:
        run: gives the sizes to change.
        what: needs the memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # PyTorch has no error class for CPU memory.
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in str(
            error
        ):
            raise
        programs = run.train.micro_batch_size or run.train.batch_size // distributed.get_world_size()
        sizes = ", ".join(
            f"{key} {value}" for key, value in run.model.model_dump(exclude={"tied", "activation"}).items()
        )
        raise RankLocalError(
            f"too little memory for {what}; set a train.micro_batch_size below {programs}, "
            f"or a smaller model than {sizes}"
        ) from None
