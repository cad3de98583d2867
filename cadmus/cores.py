"""How many processors there are for this process."""

import os


def cores() -> int:
    """Those it may run on, which a scheduler of jobs may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
