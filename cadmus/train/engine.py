"""DeepSpeed: the engine, its configuration, and the training state as full tensors.

No other module knows DeepSpeed. It reaches into DeepSpeed's internals where the public interface does not do:
two patches (:func:`start_process`, :func:`initialize`), and the layouts of the optimizer state in
:func:`gather` and :func:`restore`. Tests of resumed trainings fail when a version of DeepSpeed has changed
those.

The training state is the fp32 weights and the optimizer state of every parameter. With Adam, DeepSpeed
partitions both over the ranks (ZeRO), in a layout for each stage and precision; gathered as full tensors by
name, they fit any number of ranks. With Muon (:mod:`cadmus.train.muon`) each rank has all of it.
"""

import ctypes
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn

from cadmus import config
from cadmus.model.gpt import GPT
from cadmus.model.rate import has_bf16
from cadmus.tools import cores
from cadmus.train import ranks
from cadmus.train.compiling import TRIAL_ROWS
from cadmus.train.muon import ADAM_KINDS, WEIGHT, Muon, momentum_decay

PATIENCE = timedelta(hours=1)
"""Timeout of collectives: another rank may be reading the dataset or writing a checkpoint. DeepSpeed reduces
gradients in its own group, with torch's timeout of 10 minutes, so all ranks synchronize before a step."""
ReadTensor = Callable[[str], Tensor]
"""Returns a full tensor of the training state by its name: its kind, ``/`` and that of its parameter."""


def start_process() -> torch.device:
    """Join the process group and return the device to train on.

    :mod:`cadmus.train.ranks` sets the rank; a process that it has not started trains alone.
    """
    store = ranks.join()
    device = ranks.take_device()
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
    if device.type == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    # The launcher sets the variable for several ranks; the user's choice counts only for one.
    if local_ranks > 1 or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, cores() // local_ranks))

    # DeepSpeed calls deprecated functions.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed.ops
    from deepspeed.utils import logger

    logger.setLevel(logging.WARNING)
    # Patch: compiling shared-memory all-reduce takes most of a minute. DeepSpeed would also probe every other
    # op and, on a GPU without a compiler, warn of each.
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}
    backend = "nccl" if device.type == "cuda" else "gloo"
    deepspeed.init_distributed(backend, verbose=False, timeout=PATIENCE)
    # The process group shares its server by now.
    del store
    return device


def stop_process() -> None:
    """Leave the process group together: a rank that exits early can abort the others."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    from deepspeed.utils import groups

    # DeepSpeed keeps the groups of this training, which another one in this process would use.
    for name, value in vars(groups).items():
        if isinstance(value, torch.distributed.ProcessGroup):
            setattr(groups, name, None)


@contextmanager
def own_process_state() -> Iterator[None]:
    """Leave variables, random numbers, threads and warnings of this process as they were."""
    environment, threads = dict(os.environ), torch.get_num_threads()
    with torch.random.fork_rng(devices=()), warnings.catch_warnings():
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(environment)
            torch.set_num_threads(threads)


def with_precision(train: config.Train, device: torch.device) -> config.Train:
    """Return ``train`` with its precision resolved: bf16 if the devices of all ranks support it, or fp32."""
    if train.precision is not None:
        return train
    by_all = torch.tensor(float(has_bf16(device)), device=device)
    torch.distributed.all_reduce(by_all, torch.distributed.ReduceOp.MIN)
    return train.model_copy(update={"precision": "bf16" if by_all.item() else "fp32"})


def deepspeed_config(train: config.Train, world_size: int, parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration for ``world_size`` ranks and a model of so many parameters.

    Muon has its own copy of the weights in fp32 and its own precision (:mod:`cadmus.train.muon`).
    """
    muon = train.optimizer == "muon"
    stage = 0 if muon else train.zero_stage or 1
    adam = {"lr": train.learning_rate, "betas": train.betas, "eps": 1e-8, "weight_decay": train.weight_decay}
    written = {
        "train_batch_size": train.batch_size,
        "train_micro_batch_size_per_gpu": train.micro_batch_size or train.batch_size // world_size,
        "gradient_clipping": train.clip,
        # At most DeepSpeed's default: the buffer has this size however small the model is.
        "zero_optimization": {"stage": stage, "reduce_bucket_size": min(500_000_000, parameters)},
        "bf16": {"enabled": train.precision == "bf16" and not muon},
        "data_types": {"grad_accum_dtype": "fp32"},
        # By default gradients are rounded to bf16 before they are summed over the ranks.
        "communication_data_type": "fp32",
        # The timer waits for the GPU twice per step.
        "timers": {"throughput": {"enabled": False}},
        "steps_per_print": None,
        "wall_clock_breakdown": False,
    }
    if not muon:
        written["optimizer"] = {"type": "AdamW", "params": adam | {"torch_adam": True, "fused": True}}
    return written


def initialize(model: GPT, train: config.Train, device: torch.device) -> Any:
    """Return a DeepSpeed engine around the model; with the optimizer muon, :class:`Muon` in it."""
    import deepspeed
    from deepspeed.runtime import bf16_optimizer

    if device.type == "cpu":
        _keep_freed_memory()
    # Patch: it collects garbage and prints memory use unasked.
    bf16_optimizer.see_memory_usage = lambda *arguments, **options: None
    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    settings = deepspeed_config(train, world_size, sum(weights.numel() for weights in model.parameters()))
    muon = Muon(model.to(device), train, rank, world_size) if train.optimizer == "muon" else None
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=muon,
        model_parameters=None if muon else list(model.parameters()),
        config=settings,
    )
    if muon and train.precision == "bf16":
        muon.cast(torch.bfloat16)
    return engine


def backward(engine: Any, loss: Tensor | float) -> None:
    """Compute the gradients of a micro-batch; those of the last one are reduced over the ranks."""
    engine.backward(loss, scale_wrt_gas=False)
    if isinstance(engine.optimizer, Muon) and not engine.is_gradient_accumulation_boundary():
        engine.optimizer.collect()


def _keep_freed_memory() -> None:
    """Keep freed memory, which glibc would return to the system; zeroing pages takes up to 10% of a step."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        # M_MMAP_MAX, M_TRIM_THRESHOLD and M_TOP_PAD of malloc.h.
        for option, value in ((-4, 0), (-1, 2**31 - 1), (-2, 64 * 2**20)):
            libc.mallopt(option, value)


def learning_rate_factor(train: config.Train, step: int) -> float:
    """Return the learning rate at a step, counted from 0, as a fraction of its peak."""
    warmup = math.ceil(train.warmup_fraction * train.steps)
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, train.steps - warmup)
    if train.schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1 - done if train.schedule == "linear" else 1.0


def set_learning_rates(engine: Any, train: config.Train, step: int) -> float:
    """Set the learning rates and Muon's momentum for a step; return the rate of Adam."""
    factor = learning_rate_factor(train, step)
    for group in engine.optimizer.param_groups:
        if "momentum" in group:
            group["momentum"] = momentum_decay(step / train.steps)
        peak = train.matrix_learning_rate if group.get("use_muon") else train.learning_rate
        assert peak is not None
        group["lr"] = peak * factor
    return train.learning_rate * factor


def load_weights(model: nn.Module, read: ReadTensor) -> None:
    """Copy weights into a model that no engine wraps yet."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(read(f"{WEIGHT}/{name}"))


def gather(engine: Any, weights_only: bool = False) -> dict[str, Tensor]:
    """Gather the training state on the first rank; all ranks call this together.

    The engine has taken at least one step, unless only weights are wanted. Returns fp32 tensors on the CPU,
    in the shapes of the parameters, by the names of :data:`ReadTensor`; nothing on the other ranks.
    """
    first = torch.distributed.get_rank() == 0
    if isinstance(engine.optimizer, Muon):
        own = engine.optimizer.tensors.items() if first else ()
        wanted = f"{WEIGHT}/" if weights_only else ""
        return {name: each.to("cpu", copy=True) for name, each in own if name.startswith(wanted)}
    from deepspeed import utils

    _link(engine)
    gathered = {}
    for name, parameter in engine.module.named_parameters():
        full = {WEIGHT: utils.safe_get_full_fp32_param(parameter)}
        for kind in () if weights_only else ADAM_KINDS:
            full[kind] = utils.safe_get_full_optimizer_state(parameter, kind)
        if first:
            for kind, tensor in full.items():
                gathered[f"{kind}/{name}"] = tensor.detach().view(parameter.shape).to("cpu", copy=True)
    return gathered


def restore(engine: Any, read: ReadTensor, adam_steps: int, row_length: int) -> None:
    """Restore a state that was gathered after ``adam_steps`` in a new engine whose model has its weights.

    The rows of the training have ``row_length`` tokens.
    """
    if isinstance(engine.optimizer, Muon):
        engine.optimizer.load(read, adam_steps)
        return
    from deepspeed import utils

    _make_optimizer_state(engine, row_length)
    for name, parameter in engine.module.named_parameters():
        utils.safe_set_full_fp32_param(parameter, read(f"{WEIGHT}/{name}").to(engine.device))
        for kind in ADAM_KINDS:
            moment = read(f"{kind}/{name}").to(engine.device)
            utils.safe_set_full_optimizer_state(parameter, moment, kind)
    for state in engine.optimizer.optimizer.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"].fill_(adam_steps)
        elif "step" in state:
            state["step"] = adam_steps


def count_adam_steps(engine: Any) -> int:
    if isinstance(engine.optimizer, Muon):
        return int(engine.optimizer.adam_steps)
    states = engine.optimizer.optimizer.state.values()
    return max(int(state["step"]) for state in states if "step" in state)


def _make_optimizer_state(engine: Any, row_length: int) -> None:
    """Take a step with learning rate 0 and zero gradients: DeepSpeed allocates the optimizer state in it."""
    for group in engine.optimizer.param_groups:
        group["lr"] = 0.0
    tokens = torch.zeros((TRIAL_ROWS, row_length), dtype=torch.int64, device=engine.device)
    for _ in range(engine.gradient_accumulation_steps()):
        engine.backward(0.0 * engine(tokens, tokens, tokens).float().sum(), scale_wrt_gas=False)
        engine.step()
    _link(engine)


def _link(engine: Any) -> None:
    """Link the state of all groups; DeepSpeed does so after the step of the first group."""
    if hasattr(engine.optimizer, "_hp_optimizer_states_linked"):
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
