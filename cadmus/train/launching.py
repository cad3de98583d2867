"""Running ahead of a GPU: steps that are launched, and the copies of their losses.

A GPU computes what this process has told it to, some time later. So the loop launches the next step before
it reads the losses of the last one, and workers prepare the batches. Before a checkpoint or a snapshot it
waits. A CPU computes at once, and there the loop finishes each step before the next one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cadmus.train.batches import Batch


def runs_ahead(device: torch.device) -> bool:
    """Return True if the device computes later than it is told to."""
    return device.type == "cuda"


class Launched(NamedTuple):
    """A step that the device may still be computing."""

    step: int
    """Counted from 0."""
    batch: Batch
    learning_rate: float
    totals: Tensor
    """1 if a rank has received a signal, then the sums of all objectives, over all ranks once ``wait`` has
    returned."""
    wait: Callable[[], object]


def copied(totals: Tensor, reduction: Any) -> tuple[Tensor, Callable[[], object]]:
    """Return totals that are being reduced, on the host, and the function that waits for them."""
    if totals.device.type == "cpu":
        return totals, reduction.wait
    # Only the stream of the GPU waits here, not this process.
    reduction.wait()
    # A copy that is asked for later would also wait for the steps that are launched until then.
    copy = totals.to("cpu", non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copy, event.synchronize
