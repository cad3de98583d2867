"""Curricula: orders of the training programs other than a mixture of all."""
