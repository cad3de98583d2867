"""The rate of matrix products, by which the times of different machines compare."""

import statistics
import time

import torch

SIZE = 1024  # rows on a CPU; on a GPU, whose launches take as long as so few, 8 times as many
SECONDS = 0.2


def has_bf16(device: torch.device) -> bool:
    """Return True if bf16 is faster than fp32 on a device; CPUs without it are 50 to 100 times slower."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16"))


def dtype_of(precision: str | None, device: torch.device) -> torch.dtype:
    """Return what a training computes in: its ``precision``, or the faster one of the device."""
    bf16 = has_bf16(device) if precision is None else precision == "bf16"
    return torch.bfloat16 if bf16 else torch.float32


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Measure the FLOPs per second of a matrix product in this process, with the threads that it has."""
    size = SIZE if device.type == "cpu" else 8 * SIZE
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    taken: list[float] = []
    # The first ones are slower.
    while len(taken) < 5 or sum(taken) < SECONDS:
        start = time.perf_counter()
        torch.mm(a, b)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - start)
    return 2.0 * size**3 / statistics.median(taken)  # the median, as other processes take some time away
