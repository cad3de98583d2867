"""How many processors there are for this process."""


def cores() -> int:
    """Those it may run on and, in a container, has the quota for."""
    # Takes some hundredths of a second, which most commands can do without.
    import joblib

    count: int = joblib.cpu_count()
    return count
