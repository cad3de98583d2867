"""A scaling law: the optimal size of a model and the programs to train it on, for given FLOPs."""
