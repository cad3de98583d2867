"""Results of diffusion."""
