"""Estimates before a run starts: the training, the whole workflow on a cluster, and its jobs."""
