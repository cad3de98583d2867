"""Training: ``batches`` orders the programs, ``packing`` makes rows of them, ``loader`` does both for a step,
``loop`` trains.

``engine`` and ``state`` hold everything that is DeepSpeed's, ``checkpoint`` what a run is resumed from,
``data`` the programs in memory.
"""
