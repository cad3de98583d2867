"""A CUDA graph for CPUs: it records operations and their memory, and runs exactly these again.

As in a graph, no Python runs again, a number from the first time stays as it was, and an operation that the
host has to wait for cannot be recorded. It does not see what compiled code computes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
WAITING = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.equal.default,
    aten.masked_select.default,
}
"""Operations whose results the host needs."""


class Tape(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Callable[..., Any], tuple, dict, list[Tensor]]] = []
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if operation in WAITING:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing: {operation}")
        changes = operation._schema.is_mutable
        for tensor in tensors((arguments, options)) if changes else ():
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in self._before:
                self._before[memory.data_ptr()] = memory, memory.clone()
        results = operation(*arguments, **options)
        if changes or not operation.is_view:
            self.operations.append((operation, arguments, options, [] if changes else tensors(results)))
        return results

    def undo(self) -> None:
        """Take back the changes: recording a graph computes nothing."""
        for memory, before in self._before.values():
            memory.copy_(before)

    @torch.no_grad()
    def replay(self) -> None:
        for operation, arguments, options, results in self.operations:
            for kept, new in zip(results, tensors(operation(*arguments, **options)), strict=bool(results)):
                kept.copy_(new)


def tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def record(compute: Callable[[], None]) -> Callable[[], None]:
    """As :func:`cadmus.train.graphs.record`."""
    with (tape := Tape()):
        compute()
    tape.undo()
    return tape.replay
