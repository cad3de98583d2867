"""Independent computations side by side, each on threads of its own."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def threads_of(device: torch.device) -> int:
    """Return how many computations :func:`in_parallel` does at a time: on a CPU one per PyTorch thread."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def in_parallel(
    compute: Callable[[Item], Result], items: Iterable[Item], device: torch.device
) -> list[Result]:
    """Return ``compute(item)`` for each item, on a CPU computed in as many threads as PyTorch has.

    An operation that PyTorch divides among its threads waits for the slowest of them: beside a busy process
    it may take twenty times as long, and a small one gains little from a second thread (docs/log.md). Here
    the threads share no operation. ``compute`` runs in inference mode.

    Raises:
        Exception: what ``compute`` raises; items that have not begun are dropped.
    """

    def one(item: Item) -> Result:
        with torch.inference_mode():
            return compute(item)

    items, threads = list(items), torch.get_num_threads()
    workers = min(threads_of(device), len(items))
    if workers < 2:
        return list(map(one, items))
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
    try:
        return list(pool.map(one, items))
    finally:
        pool.shutdown(cancel_futures=True)
        # Threads that start later have the number that was set last.
        torch.set_num_threads(threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in the block with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
