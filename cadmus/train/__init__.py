"""Training: the loop and its objectives, batches, checkpoints, and the ranks that share the work."""
