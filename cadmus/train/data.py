"""Training programs: batches take them from anywhere in the training set, so every rank reads all of it."""

from collections.abc import Callable, Collection, Iterable

from torch import distributed

from cadmus.errors import InputError
from cadmus.programs import Samples

ReadSplit = Callable[[Collection[str] | None], Iterable[Samples]]
"""Returns the training programs of some templates, or all, in parts."""


def read_all(read: ReadSplit) -> Samples:
    """Return the training programs of all templates.

    All ranks call this together, and all raise the InputError of one.
    """
    samples: Samples | None = None
    error: InputError | None = None
    try:
        samples = Samples.concat([*read(None)])
    except InputError as raised:
        error = raised
    errors = [error] * distributed.get_world_size()
    distributed.all_gather_object(errors, error)
    for problem in errors:
        if problem is not None:
            raise problem
    assert samples is not None
    return samples
