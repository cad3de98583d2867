"""The number of CPU cores."""


def cores() -> int:
    """Return the number of cores that this process may use, container quotas included."""
    # Imported here because it takes hundredths of a second.
    import joblib

    count: int = joblib.cpu_count()
    return count
