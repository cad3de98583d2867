"""A step of a training as one CUDA graph.

A small model launches a thousand kernels in a step, which takes its host longer than the GPU computes them. A
graph is recorded once and launches all of them together. It always reads and writes the same memory, in the
same shapes: so batches are padded to one number of rows (:class:`cadmus.train.loader.Loader`) and copied to
the memory of the recorded one, and the counts of a batch, numbers elsewhere, are tensors here.

Losses and gradients are in it. The optimizer is not: the host launches it while they are computed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from cadmus import config
from cadmus.errors import InputError
from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Objective
from cadmus.train.packing import PackedBatch
from cadmus.train.ranks import Place

WARMUP = 3
"""Steps before the recorded one: they compile, and libraries allocate what they keep."""
Compute = Callable[[PackedBatch, Batch], None]
"""Computes the losses and the gradients of a batch."""


def obstacle(run: config.Config, place: Place, objectives: list[Objective]) -> str | None:
    """Return why the steps of a training cannot be a graph, None if they can."""
    train = run.train
    if place.device.type != "cuda":
        return "it needs a GPU"
    if place.ranks > 1 or train.micro_batch_size not in (None, train.batch_size) or train.optimizer != "muon":
        return "it takes one rank, one micro-batch and the optimizer muon"
    others = [name for name, each in zip(run.objectives, objectives, strict=True) if not each.fixed]
    return f"not with {', '.join(others)}" if others else None


@contextmanager
def stream_of_its_own(device: torch.device) -> Iterator[None]:
    """Launch everything on a stream that can be recorded, which the default one cannot."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        # After an error, a step may still be computed.
        torch.cuda.current_stream(device).wait_stream(stream)


def record(compute: Callable[[], None]) -> Callable[[], None]:
    """Record what a function launches, which computes nothing; return what launches it."""
    graph = torch.cuda.CUDAGraph()
    # Other threads, as that of NCCL, go on.
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
        compute()
    return graph.replay


class Graphed:
    """Computes as ``compute`` does: by a graph, once there is one, the batches of so many ``rows``."""

    def __init__(self, compute: Compute, rows: int) -> None:
        self._compute, self._rows = compute, rows
        self._left = WARMUP
        self._replay: Callable[[], None] | None = None

    def __call__(self, packed: PackedBatch, batch: Batch) -> None:
        if len(packed.tokens) != self._rows or packed.extras:
            # A batch of unusually long programs, or with more than the graph reads.
            self._compute(packed, batch)
            return
        if self._left == 0:
            self._record(packed, batch)
        self._left -= 1
        if self._replay is None:
            self._compute(packed, batch)
            return
        for kept, new in zip(_tensors(self._packed), _tensors(packed), strict=True):
            kept.copy_(new)
        for count, value in zip(self._counts, batch[1:], strict=True):
            count.fill_(value)
        self._replay()

    def _record(self, packed: PackedBatch, batch: Batch) -> None:
        self._packed = packed
        self._counts = [torch.full((), float(count), device=packed.tokens.device) for count in batch[1:]]
        counted = Batch([packed], *self._counts)  # type: ignore[arg-type]
        try:
            self._replay = record(lambda: self._compute(packed, counted))
        except RuntimeError as error:
            # This process cannot go on: its allocator and random numbers may still be recording. The end of
            # the recording has an error of its own, which says less than the first one.
            said = str(error.__context__ or error).splitlines()[0]
            raise InputError(f"train.cuda_graph: {said}; set it to false, and start again") from error


def _tensors(packed: PackedBatch) -> list[Tensor]:
    own = packed.tokens, packed.positions, packed.segments, packed.targets, packed.completion_mask
    return [*own, *packed.columns.values()]
