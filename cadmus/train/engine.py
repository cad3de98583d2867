"""DeepSpeed, with what it takes to run it on CPUs and GPUs alike."""

import ctypes
import logging
import math
import os
import shutil
import socket
import sysconfig
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from cadmus import config
from cadmus.common.cores import cores
from cadmus.errors import InputError, RankLocalError
from cadmus.model.gpt import GPT
from cadmus.train import devices

MUON_MOMENTUM = 0.95
PATIENCE = timedelta(hours=1)
"""How long a rank waits for the others, of which one may be reading the dataset or writing a checkpoint.

DeepSpeed reduces gradients in a group of its own with torch's limit of ten minutes, so the ranks wait for
each other before they enter a step.
"""


def start_process() -> torch.device:
    """Join the process group and return the device to train on.

    :mod:`cadmus.train.launch`, or ``torchrun``, tells each process its place; a process started without them
    is a training of one rank.

    Raises:
        InputError: the node has fewer GPUs than ranks, or GPUs that PyTorch cannot use.
    """
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if "MASTER_PORT" not in os.environ:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            os.environ["MASTER_PORT"] = str(unused.getsockname()[1])
    local_rank, local_ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    try:
        devices.check(local_ranks)
    except InputError as error:
        # One rank speaks for those of its node.
        raise RankLocalError(str(error)) if local_rank == 0 else error from None
    device = devices.take(local_rank)
    if device.type == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
        # DeepSpeed's Newton-Schulz is under torch.compile, which on a CPU needs a C++ compiler and half a
        # minute to save milliseconds.
        torch.compiler.set_stance("force_eager")
    # torchrun sets the variable for several ranks, so only that of a single rank is surely the user's.
    if local_ranks > 1 or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, cores() // local_ranks))

    # DeepSpeed's calls, not ours.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed
    import deepspeed.ops
    from deepspeed.utils import logger

    logger.setLevel(logging.WARNING)
    # Optional: all-reduces through shared memory, of which the compilation takes most of a minute. DeepSpeed
    # would look what else could be compiled, and warn of each op where there is a GPU and no compiler.
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}
    backend = "nccl" if device.type == "cuda" else "gloo"
    deepspeed.init_distributed(backend, verbose=False, timeout=PATIENCE)
    return device


def prepare_compiler(wanted: bool) -> str | None:
    """Have torch.compile compile on a GPU, or run everything eagerly.

    Args:
        wanted: ``train.compile``.

    Returns:
        Why nothing is compiled although it was wanted, or None.
    """
    missing = missing_for_compiler() if wanted else None
    if missing or not wanted:
        torch.compiler.set_stance("force_eager")
    return missing and f"{missing}; blocks and Muon are not compiled, which makes steps slower"


def missing_for_compiler() -> str | None:
    """What Triton lacks to build the launchers of its kernels."""
    compilers = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    if not any(shutil.which(compiler) for compiler in compilers):
        return f"no C compiler found ({' or '.join(compilers)})"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.exists() else f"no {header} (the package python3-dev has it)"


def _keep_freed_memory() -> None:
    """Let freed memory stay with the process.

    By default glibc hands that of large tensors back at once and gets it again, zeroed page by page, for the
    next: up to a tenth of a step.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        # Their numbers in malloc.h; the parameters are C integers.
        m_mmap_max, m_trim_threshold, m_top_pad = -4, -1, -2
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, 2**31 - 1)
        libc.mallopt(m_top_pad, 64 * 2**20)


def with_precision(train: config.Train, device: torch.device) -> config.Train:
    """The training with the precision that it has on this machine, or, of several ranks, on all of them.

    A processor without instructions for bf16 computes in it fifty to a hundred times slower than in fp32.
    """
    if train.precision is not None:
        return train
    if device.type == "cuda":
        able = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        capabilities = torch.cpu.get_capabilities()
        able = any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16"))
    of_all = torch.tensor(float(able), device=device)
    torch.distributed.all_reduce(of_all, torch.distributed.ReduceOp.MIN)
    return train.model_copy(update={"precision": "bf16" if of_all.item() else "fp32"})


def stop_process() -> None:
    """Leave together: a rank that goes ahead can make the others abort."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def deepspeed_config(train: config.Train, world_size: int) -> dict[str, Any]:
    """All that DeepSpeed is told; everything it can derive itself is left out.

    Args:
        train: which optimizer, batch and stage, and the precision of :func:`with_precision`.
        world_size: ranks that share the batch.
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
                # The default computes in fp16 where the CPU can, so its results would depend on the CPU.
                "ns_method": "standard",
            },
        }
    else:
        optimizer = {"type": "AdamW", "params": {**adam, "lr": train.learning_rate, "fused": True}}
    share = train.batch_size // world_size
    return {
        "train_batch_size": train.batch_size,
        "train_micro_batch_size_per_gpu": train.micro_batch_size or share,
        "optimizer": optimizer,
        "gradient_clipping": train.clip,
        "zero_optimization": {"stage": train.zero_stage},
        "bf16": {"enabled": train.precision == "bf16"},
        "data_types": {"grad_accum_dtype": "fp32"},
        # Otherwise gradients are rounded to bf16 before they are summed over the ranks.
        "communication_data_type": "fp32",
        # It waits for the GPU twice a step.
        "timers": {"throughput": {"enabled": False}},
        "steps_per_print": None,
        "wall_clock_breakdown": False,
    }


def initialise(model: GPT, train: config.Train, world_size: int) -> Any:
    """A DeepSpeed engine around the model; the arguments are those of :func:`deepspeed_config`.

    Under the optimizer muon, DeepSpeed itself gives Muon the matrices of the blocks, and AdamW the
    embeddings, the output and all vectors.
    """
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.runtime import bf16_optimizer

    if not torch.cuda.is_available():
        _keep_freed_memory()
    # It takes every CPU for one that computes in bf16, and so does Muon's Newton-Schulz iteration then.
    get_accelerator().is_bf16_supported = lambda: train.precision == "bf16"
    # It collects garbage and prints its use of memory whether asked or not.
    bf16_optimizer.see_memory_usage = lambda *arguments, **options: None
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=list(model.parameters()),
        config=deepspeed_config(train, world_size),
    )
    return engine


def rate_share(train: config.Train, step: int) -> float:
    """Share of the peak learning rates in force at a step, counted from 0."""
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
    """Put the rates of a step in force; returns that of Adam."""
    share = rate_share(train, step)
    for group in engine.optimizer.param_groups:
        peak = train.matrix_learning_rate if group.get("use_muon") else train.learning_rate
        assert peak is not None, "the config has a rate for muon"
        group["lr"] = peak * share
    return train.learning_rate * share
