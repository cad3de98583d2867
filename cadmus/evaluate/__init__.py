"""Experiments on a trained model: completions graded by execution, and the comparison grid."""
