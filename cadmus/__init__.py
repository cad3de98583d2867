import os

# GNU OpenMP reads this when PyTorch loads it.  By default a thread that waits for the others spins for
# milliseconds, and where another process wants the cores that costs a factor of ten and more; with this
# it soon sleeps, and on free cores nothing is lost (docs/log.md).
os.environ.setdefault("GOMP_SPINCOUNT", "30000")
