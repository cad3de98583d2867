"""DeepSpeed on CPUs and GPUs: process group, configuration, engine and learning rates."""

import ctypes
import logging
import math
import os
import shutil
import sysconfig
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from cadmus import config
from cadmus.errors import InputError, RankLocalError
from cadmus.model.gpt import GPT
from cadmus.tools import cores
from cadmus.train import devices, loopback

MUON_MOMENTUM = 0.95
REDUCE_BUCKET_SIZE = 500_000_000
"""Gradients that are reduced at once: DeepSpeed's default."""
PATIENCE = timedelta(hours=1)
"""Timeout of collectives: another rank may be reading the dataset or writing a checkpoint.

DeepSpeed reduces gradients in its own group, where torch's timeout of 10 minutes applies, so all ranks
synchronize before a step.
"""


def start_process() -> torch.device:
    """Join the process group and return the device to train on.

    :mod:`cadmus.train.launch` or ``torchrun`` sets the rank; a process started without them trains alone.

    Raises:
        InputError: the node has fewer GPUs than ranks, or GPUs that PyTorch cannot use.
    """
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_ADDR", loopback.HOST)
    store = None
    if "MASTER_PORT" not in os.environ:
        loopback.use_interface()
        store = loopback.store()
        os.environ["MASTER_PORT"] = str(store.port)
    local_rank, local_ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    try:
        devices.check(local_ranks)
    except InputError as error:
        # One rank reports the error for its node.
        raise RankLocalError(str(error)) if local_rank == 0 else error from None
    device = devices.take(local_rank)
    if device.type == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
        # torch.compile would take a C++ compiler and half a minute to save milliseconds in Newton-Schulz.
        torch.compiler.set_stance("force_eager")
    # torchrun sets the variable for several ranks; the user's choice counts only for one.
    if local_ranks > 1 or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, cores() // local_ranks))

    # DeepSpeed calls deprecated functions.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed
    import deepspeed.ops
    from deepspeed.utils import logger

    logger.setLevel(logging.WARNING)
    # Compiling shared-memory all-reduce takes most of a minute. DeepSpeed would also probe every other op
    # and, on a GPU without a compiler, warn of each.
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}
    backend = "nccl" if device.type == "cuda" else "gloo"
    deepspeed.init_distributed(backend, verbose=False, timeout=PATIENCE)
    # The process group shares its server by now.
    del store
    return device


def prepare_compiler(wanted: bool) -> str | None:
    """Run everything eagerly on a GPU unless compiling is ``wanted`` and possible.

    Returns:
        The reason why nothing is compiled although it is wanted, or None.
    """
    missing = missing_for_compiler() if wanted else None
    if missing or not wanted:
        torch.compiler.set_stance("force_eager")
    return missing and f"{missing}; blocks and Muon are not compiled, which makes steps slower"


def missing_for_compiler() -> str | None:
    """Return what Triton is missing to build kernel launchers, or None."""
    compilers = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    if not any(shutil.which(compiler) for compiler in compilers):
        return f"no C compiler found ({' or '.join(compilers)})"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.exists() else f"no {header} (the package python3-dev has it)"


def _keep_freed_memory() -> None:
    """Keep freed memory in the process.

    By default glibc returns large tensors to the system, which zeroes pages anew: up to 10% of a step.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        # From malloc.h.
        m_mmap_max, m_trim_threshold, m_top_pad = -4, -1, -2
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, 2**31 - 1)
        libc.mallopt(m_top_pad, 64 * 2**20)


def with_precision(train: config.Train, device: torch.device) -> config.Train:
    """Return ``train`` with its precision resolved: bf16 if the devices of all ranks support it, or fp32.

    CPUs without bf16 instructions are 50 to 100 times slower in bf16 than in fp32.
    """
    if train.precision is not None:
        return train
    if device.type == "cuda":
        supported = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        capabilities = torch.cpu.get_capabilities()
        supported = any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16"))
    by_all = torch.tensor(float(supported), device=device)
    torch.distributed.all_reduce(by_all, torch.distributed.ReduceOp.MIN)
    return train.model_copy(update={"precision": "bf16" if by_all.item() else "fp32"})


def stop_process() -> None:
    """Leave the process group together: a rank that exits early can abort the others."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def deepspeed_config(train: config.Train, world_size: int, parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration.

    Args:
        train: with the precision of :func:`with_precision`.
        world_size: number of ranks.
        parameters: their number in the model, with the head of the state labels.
    """
    adam = {"betas": train.betas, "eps": 1e-8, "weight_decay": train.weight_decay, "torch_adam": True}
    if train.optimizer == "muon":
        optimizer = {
            "type": "Muon",
            "params": {
                **adam,
                "muon_lr": train.matrix_learning_rate,
                "adam_lr": train.learning_rate,
                "momentum": MUON_MOMENTUM,
                # The default uses fp16 if the CPU supports it, so results would depend on the CPU.
                "ns_method": "standard",
            },
        }
    else:
        optimizer = {"type": "AdamW", "params": {**adam, "lr": train.learning_rate, "fused": True}}
    return {
        "train_batch_size": train.batch_size,
        "train_micro_batch_size_per_gpu": train.micro_batch_size or train.batch_size // world_size,
        "optimizer": optimizer,
        "gradient_clipping": train.clip,
        # The buffer has this size however small the model is.
        "zero_optimization": {
            "stage": train.zero_stage,
            "reduce_bucket_size": min(REDUCE_BUCKET_SIZE, parameters),
        },
        "bf16": {"enabled": train.precision == "bf16"},
        "data_types": {"grad_accum_dtype": "fp32"},
        # By default gradients are rounded to bf16 before they are summed over the ranks.
        "communication_data_type": "fp32",
        # The timer waits for the GPU twice per step.
        "timers": {"throughput": {"enabled": False}},
        "steps_per_print": None,
        "wall_clock_breakdown": False,
    }


def initialize(model: GPT, train: config.Train, world_size: int) -> Any:
    """Return a DeepSpeed engine around the model, from the arguments of :func:`deepspeed_config`.

    With the optimizer muon, DeepSpeed applies Muon to the matrices of the blocks, and AdamW to the
    embeddings, the output and all vectors.
    """
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.runtime import bf16_optimizer

    if not torch.cuda.is_available():
        _keep_freed_memory()
    # DeepSpeed assumes that every CPU supports bf16, and would run Newton-Schulz in it.
    get_accelerator().is_bf16_supported = lambda: train.precision == "bf16"
    # It collects garbage and prints memory use unasked.
    bf16_optimizer.see_memory_usage = lambda *arguments, **options: None
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=list(model.parameters()),
        config=deepspeed_config(train, world_size, sum(weights.numel() for weights in model.parameters())),
    )
    return engine


def learning_rate_factor(train: config.Train, step: int) -> float:
    """Return the learning rate at a step, counted from 0, as a fraction of its peak."""
    warmup = math.ceil(train.warmup_fraction * train.steps)
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, train.steps - warmup)
    match train.schedule:
        case "linear":
            return 1 - done
        case "cosine":
            return (1 + math.cos(math.pi * done)) / 2
        case "constant":
            return 1.0


def set_learning_rates(engine: Any, train: config.Train, step: int) -> float:
    """Set the learning rates of a step; return that of Adam."""
    factor = learning_rate_factor(train, step)
    for group in engine.optimizer.param_groups:
        peak = train.matrix_learning_rate if group.get("use_muon") else train.learning_rate
        assert peak is not None, "the config has a learning rate for Muon"
        group["lr"] = peak * factor
    return train.learning_rate * factor
