"""Training: ``batches`` orders the programs, ``packing`` makes rows of them, ``loop`` trains.

``engine`` holds everything that is DeepSpeed's, ``checkpoint`` what a run is resumed from.
"""
