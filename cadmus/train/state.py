"""The training state: fp32 weights and optimizer state of every parameter, whole and by name.

DeepSpeed partitions both between the ranks, in a layout for each ZeRO stage and precision.  This module
gathers them into whole tensors and hands them out again, so a checkpoint fits any number of ranks.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

WEIGHT = "weight"
"""The kind of the fp32 weights; the other kinds are the optimizer's names of its state."""
MOMENTUM = "momentum_buffer"
ADAM_KINDS = ("exp_avg", "exp_avg_sq")


def kinds(parameter: nn.Parameter) -> tuple[str, ...]:
    """Kinds of tensors saved for a parameter: its weights and its optimizer state."""
    # DeepSpeed marks the matrices that it gives to Muon.
    return (WEIGHT, MOMENTUM) if getattr(parameter, "use_muon", False) else (WEIGHT, *ADAM_KINDS)


def gather(engine: Any, wanted: tuple[str, ...] | None = None) -> dict[str, Tensor]:
    """Gather the training state at the first rank; all ranks must call this together.

    Args:
        engine: DeepSpeed's, after at least one step unless only weights are wanted.
        wanted: kinds of tensors to gather; all if None.

    Returns:
        fp32 tensors on the CPU in the shapes of the parameters, by :func:`key`; none at the other ranks.
    """
    _link(engine)
    first = torch.distributed.get_rank() == 0
    gathered = {}
    for name, parameter in engine.module.named_parameters():
        for kind in kinds(parameter):
            if wanted is None or kind in wanted:
                whole = _whole(engine, parameter, kind)
                if first:
                    shape = getattr(parameter, "ds_shape", parameter.shape)
                    gathered[key(kind, name)] = whole.detach().view(shape).to("cpu", copy=True)
    return gathered


def restore(engine: Any, read: Callable[[str], Tensor], adam_steps: int) -> None:
    """Put a gathered state into a new engine whose model has the weights of that state.

    Args:
        engine: DeepSpeed's, before its first step.
        read: gives the tensor of a :func:`key`.
        adam_steps: steps that Adam has counted, for its bias correction.
    """
    _make_optimizer_state(engine)
    for name, parameter in engine.module.named_parameters():
        for kind in kinds(parameter):
            _distribute(engine, parameter, kind, read(key(kind, name)))
    for state in _optimizer(engine).state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"].fill_(adam_steps)
        elif "step" in state:
            state["step"] = adam_steps


def load_weights(model: nn.Module, read: Callable[[str], Tensor]) -> None:
    """Copy the weights of a state into a model that DeepSpeed does not have yet.

    Args:
        model: any with the parameters of the state.
        read: gives the tensor of a :func:`key`.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(read(key(WEIGHT, name)))


def count_adam_steps(engine: Any) -> int:
    """Steps that Adam has counted."""
    return max(int(state["step"]) for state in _optimizer(engine).state.values() if "step" in state)


def key(kind: str, name: str) -> str:
    """The name of a tensor of the state: a kind of :func:`kinds` and the name of its parameter."""
    return f"{kind}/{name}"


def _optimizer(engine: Any) -> torch.optim.Optimizer:
    """The optimizer that DeepSpeed's wraps."""
    optimizer: torch.optim.Optimizer = engine.optimizer.optimizer
    return optimizer


def _make_optimizer_state(engine: Any) -> None:
    """Make one step at rate 0 with zero gradients, in which DeepSpeed allocates the optimizer state."""
    for group in engine.optimizer.param_groups:
        group["lr"] = 0.0
    # torch.compile specialises a dimension that equals a size of the model, so neither 11 nor 7 is one.
    tokens = torch.zeros((11, 7), dtype=torch.int64, device=engine.device)
    for _ in range(engine.gradient_accumulation_steps()):
        engine.backward(0.0 * engine(tokens, tokens, tokens).float().sum(), scale_wrt_gas=False)
        engine.step()
    _link(engine)


def _link(engine: Any) -> None:
    """Link the state of all groups; at stages 1 and 2 DeepSpeed does so after the step of the first group."""
    if hasattr(engine.optimizer, "_hp_optimizer_states_linked"):
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()


def _whole(engine: Any, parameter: Any, kind: str) -> Tensor:
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    if kind == WEIGHT:
        whole: Tensor = safe_get_full_fp32_param(parameter)
    elif kind == MOMENTUM and _keeps_whole_momenta(engine):
        whole = torch.zeros(parameter.numel(), device=engine.device)
        for momentum in _momenta(engine, parameter):
            # Ranks that share a matrix have the same momentum; the one where it begins sends it.
            if parameter._hp_mapping.lp_fragment_address.start == 0:
                whole.copy_(momentum)
        torch.distributed.all_reduce(whole)
    else:
        whole = safe_get_full_optimizer_state(parameter, kind)
    return whole


def _distribute(engine: Any, parameter: Any, kind: str, whole: Tensor) -> None:
    from deepspeed.utils import (
        safe_set_full_fp32_param,
        safe_set_full_optimizer_state,
        safe_set_local_fp32_param,
        safe_set_local_optimizer_state,
    )

    whole = whole.to(engine.device)
    if hasattr(parameter, "ds_id"):
        # Stage 3 pads a parameter to equal parts; DeepSpeed's setters of whole tensors do not.
        size = parameter.ds_tensor.ds_numel
        padded = whole.new_zeros(size * torch.distributed.get_world_size())
        padded[: whole.numel()] = whole.flatten()
        part = padded.narrow(0, size * torch.distributed.get_rank(), size)
        if kind == WEIGHT:
            safe_set_local_fp32_param(parameter, part)
        else:
            safe_set_local_optimizer_state(parameter, part, kind)
    elif kind == WEIGHT:
        safe_set_full_fp32_param(parameter, whole)
    elif kind == MOMENTUM and _keeps_whole_momenta(engine):
        for momentum in _momenta(engine, parameter):
            momentum.copy_(whole.flatten())
    else:
        safe_set_full_optimizer_state(parameter, whole, kind)


def _keeps_whole_momenta(engine: Any) -> bool:
    """Whether each rank keeps Muon's momentum of every matrix that it has a part of, as in fp32.

    DeepSpeed's functions for optimizer state know only state that is partitioned like the weights.
    """
    return hasattr(engine.optimizer, "params_in_partition")


def _momenta(engine: Any, parameter: nn.Parameter) -> Iterator[Tensor]:
    """Muon's momentum of a matrix at this rank, flat; nothing if this rank has no part of the matrix."""
    for group, parameters in zip(
        _optimizer(engine).param_groups, engine.optimizer.params_in_partition, strict=True
    ):
        offset = 0
        for other in parameters:
            if other is parameter:
                momenta: Tensor = _optimizer(engine).state[group["params"][0]][MOMENTUM]
                yield momenta.narrow(0, offset, parameter.numel())
            offset += other.numel()
