"""The device of a rank: a GPU of its own, or the CPU on a node without GPUs."""

import os
from pathlib import Path

import torch

from cadmus.errors import InputError

NVIDIA_DEVICE = Path("/dev/nvidia0")


def check(ranks: int) -> None:
    """Check that this node has a device for each of its ``ranks``.

    Raises:
        InputError: the node has GPUs, but fewer than ranks, or PyTorch cannot use them.
    """
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        if ranks > count:
            raise InputError(
                f"train.ranks: this node has {count} GPUs for {ranks} ranks; set at most {count} per node"
            )
    elif has_gpu() and os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        raise InputError(
            f"this node has GPUs that PyTorch {torch.__version__} cannot use; update the NVIDIA driver, "
            "install PyTorch for the CUDA version that `nvidia-smi` shows, or set CUDA_VISIBLE_DEVICES= to "
            "train on CPUs"
        )


def has_gpu() -> bool:
    """Return True if this node, or this SLURM job on it, has NVIDIA GPUs, usable or not."""
    return bool(os.environ.get("SLURM_JOB_GPUS")) or NVIDIA_DEVICE.exists()


def take(local_rank: int) -> torch.device:
    """Return the device of a rank; a GPU becomes the current device."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # NCCL uses the current device for objects and barriers; the default is the GPU of local rank 0.
    torch.cuda.set_device(local_rank)
    # cuDNN plans for each number of rows, and a training has dozens.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda", local_rank)
