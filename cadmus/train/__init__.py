"""Training: the order of the programs (``batches``), packing, the loop, checkpoints and ranks.

Only ``engine`` and ``state`` know DeepSpeed.
"""
