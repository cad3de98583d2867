"""Training: ``batches`` orders the programs, ``packing`` makes rows of them, ``loop`` trains.

``engine`` and ``state`` hold everything that is DeepSpeed's, ``checkpoint`` what a run is resumed from.
"""
