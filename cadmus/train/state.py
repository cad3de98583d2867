"""The training state: fp32 weights and optimizer state of every parameter, as full tensors by name.

DeepSpeed partitions both over the ranks, in a layout for each ZeRO stage and precision.  This module gathers
full tensors and scatters them again, so a checkpoint fits any number of ranks.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

WEIGHT = "weight"
"""Kind of the fp32 weights; the other kinds are the optimizer's names of its state."""
MOMENTUM = "momentum_buffer"
ADAM_KINDS = ("exp_avg", "exp_avg_sq")


def kinds(parameter: nn.Parameter) -> tuple[str, ...]:
    """Return the kinds of tensors that a parameter has: its weights and its optimizer state."""
    # DeepSpeed marks the matrices that Muon optimizes.
    return (WEIGHT, MOMENTUM) if getattr(parameter, "use_muon", False) else (WEIGHT, *ADAM_KINDS)


def gather(engine: Any, wanted: tuple[str, ...] | None = None) -> dict[str, Tensor]:
    """Gather the training state on the first rank; all ranks call this together.

    Args:
        engine: DeepSpeed's, after at least one step unless only weights are wanted.
        wanted: kinds of tensors to gather; all if None.

    Returns:
        By :func:`key`, fp32 tensors on the CPU in the shapes of the parameters; empty on the other ranks.
    """
    _link(engine)
    first = torch.distributed.get_rank() == 0
    gathered = {}
    for name, parameter in engine.module.named_parameters():
        for kind in kinds(parameter):
            if wanted is None or kind in wanted:
                full = _full(engine, parameter, kind)
                if first:
                    shape = full_shape(parameter)
                    gathered[key(kind, name)] = full.detach().view(shape).to("cpu", copy=True)
    return gathered


Read = Callable[[str, tuple[int, ...]], Tensor]
"""Returns the tensor of a :func:`key`, which has the given shape."""


def restore(engine: Any, read: Read, adam_steps: int) -> None:
    """Restore a gathered state in a new engine whose model has its weights already.

    Args:
        engine: DeepSpeed's, before its first step.
        read: returns the full tensors.
        adam_steps: step count for Adam's bias correction.

    Raises:
        FloatingPointError: the weights give infinite logits.
    """
    _make_optimizer_state(engine)
    for name, parameter in engine.module.named_parameters():
        for kind in kinds(parameter):
            _scatter(engine, parameter, kind, read(key(kind, name), full_shape(parameter)))
    for state in _optimizer(engine).state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"].fill_(adam_steps)
        elif "step" in state:
            state["step"] = adam_steps


def load_weights(model: nn.Module, read: Read) -> None:
    """Copy weights into a model that no engine wraps yet."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(read(key(WEIGHT, name), full_shape(parameter)))


def count_adam_steps(engine: Any) -> int:
    """Return the step count of Adam."""
    return max(int(state["step"]) for state in _optimizer(engine).state.values() if "step" in state)


def full_shape(parameter: nn.Parameter) -> tuple[int, ...]:
    """Return the shape of a parameter, which ZeRO stage 3 may have partitioned."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


def key(kind: str, name: str) -> str:
    """Return the name of a tensor: its kind, one of :func:`kinds`, and the name of its parameter."""
    return f"{kind}/{name}"


def _optimizer(engine: Any) -> torch.optim.Optimizer:
    """Return the optimizer that DeepSpeed's wraps."""
    optimizer: torch.optim.Optimizer = engine.optimizer.optimizer
    return optimizer


def _make_optimizer_state(engine: Any) -> None:
    """Take a step with learning rate 0 and zero gradients: DeepSpeed allocates the optimizer state in it."""
    for group in engine.optimizer.param_groups:
        group["lr"] = 0.0
    # torch.compile specializes a dimension that equals a model size; 11 and 7 are not model sizes.
    tokens = torch.zeros((11, 7), dtype=torch.int64, device=engine.device)
    for _ in range(engine.gradient_accumulation_steps()):
        loss = 0.0 * engine(tokens, tokens, tokens).float().sum()
        if not loss.isfinite():
            raise FloatingPointError("infinite logits")
        engine.backward(loss, scale_wrt_gas=False)
        engine.step()
    _link(engine)


def _link(engine: Any) -> None:
    """Link the state of all groups; ZeRO stages 1 and 2 do so after the step of the first group."""
    if hasattr(engine.optimizer, "_hp_optimizer_states_linked"):
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()


def _full(engine: Any, parameter: Any, kind: str) -> Tensor:
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    if kind == WEIGHT:
        full: Tensor = safe_get_full_fp32_param(parameter)
    elif kind == MOMENTUM and _keeps_full_momenta(engine):
        full = torch.zeros(parameter.numel(), device=engine.device)
        for momentum in _momenta(engine, parameter):
            # Ranks that share a matrix have the same momentum; the rank with its first part sends it.
            if parameter._hp_mapping.lp_fragment_address.start == 0:
                full.copy_(momentum)
        torch.distributed.all_reduce(full)
    else:
        full = safe_get_full_optimizer_state(parameter, kind)
    return full


def _scatter(engine: Any, parameter: Any, kind: str, full: Tensor) -> None:
    from deepspeed.utils import (
        safe_set_full_fp32_param,
        safe_set_full_optimizer_state,
        safe_set_local_fp32_param,
        safe_set_local_optimizer_state,
    )

    full = full.to(engine.device)
    if hasattr(parameter, "ds_id"):
        # Stage 3 pads a parameter to equal parts; DeepSpeed's setters of full tensors do not.
        size = parameter.ds_tensor.ds_numel
        padded = full.new_zeros(size * torch.distributed.get_world_size())
        padded[: full.numel()] = full.flatten()
        part = padded.narrow(0, size * torch.distributed.get_rank(), size)
        if kind == WEIGHT:
            safe_set_local_fp32_param(parameter, part)
        else:
            safe_set_local_optimizer_state(parameter, part, kind)
    elif kind == WEIGHT:
        safe_set_full_fp32_param(parameter, full)
    elif kind == MOMENTUM and _keeps_full_momenta(engine):
        for momentum in _momenta(engine, parameter):
            momentum.copy_(full.flatten())
    else:
        safe_set_full_optimizer_state(parameter, full, kind)


def _keeps_full_momenta(engine: Any) -> bool:
    """Return True if a rank keeps the full momentum of each matrix that it has a part of, as in fp32.

    DeepSpeed's accessors of optimizer state handle only state that is partitioned like the weights.
    """
    return hasattr(engine.optimizer, "params_in_partition")


def _momenta(engine: Any, parameter: nn.Parameter) -> Iterator[Tensor]:
    """Yield Muon's momentum of a matrix, flat, if this rank has a part of the matrix."""
    for group, parameters in zip(
        _optimizer(engine).param_groups, engine.optimizer.params_in_partition, strict=True
    ):
        offset = 0
        for other in parameters:
            if other is parameter:
                momenta: Tensor = _optimizer(engine).state[group["params"][0]][MOMENTUM]
                yield momenta.narrow(0, offset, parameter.numel())
            offset += other.numel()
