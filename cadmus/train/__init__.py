"""Training: ``batches`` orders the programs, ``packing`` makes rows of them, ``loop`` trains.

``engine`` and ``universal`` hold everything that is DeepSpeed's, ``checkpoint`` what a run is resumed from.
"""
