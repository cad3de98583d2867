"""Masked diffusion: models with full attention, which write the tokens of a completion in any order."""
