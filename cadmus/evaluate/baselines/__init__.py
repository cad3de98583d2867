"""Policies that answer without understanding, for comparison with the accuracy of a model."""
