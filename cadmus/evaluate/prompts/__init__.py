"""Prompts beyond the programs of a dataset: comparisons, counterfactual pairs, texts for language models."""
