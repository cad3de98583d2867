"""Constants of the template tests."""

COUNT = 2_000
"""Programs sampled of a template."""
