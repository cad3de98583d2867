"""Interactive explorer: a program, its execution and the predictions of a model."""
