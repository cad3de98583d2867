"""Runs of diffusion."""

ATTENTION = {"full": "masked_diffusion"}
RUNS = {"masked": {"train": {"state_weight": 1.0}, "model": {"attention": "full"}}}
