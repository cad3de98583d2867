"""The number of CPU cores, and whether there is a GPU."""

from pathlib import Path


def cores() -> int:
    """Return the number of cores that this process may use, container quotas included."""
    # Imported here because it takes hundredths of a second.
    import joblib

    count: int = joblib.cpu_count()
    return count


def has_gpu() -> bool:
    """Return True if this machine has an NVIDIA GPU, without importing torch."""
    return any(Path("/dev").glob("nvidia[0-9]*"))
