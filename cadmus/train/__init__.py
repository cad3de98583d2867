"""Training: the loop and its objectives, batches, checkpoints, and the ranks that share the work."""

NO_TARGET = -100
"""Target where there is nothing to predict, which losses ignore."""
