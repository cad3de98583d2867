"""Accuracies of results, their intervals and regions of the grid."""
