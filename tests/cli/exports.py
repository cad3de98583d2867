"""A small model for tests of greedy completion."""

from pathlib import Path

from cadmus.config import Model
from cadmus.model.export import save_export
from tests.model.models import ending_model

SIZES = Model(layers=2, width=32, heads=4, mlp=48)
TRAINED_LENGTH = 12
PREFIXES = ["34+7", "-", "1", "941-*55*2+", "u1b2b", "rs", "0", "\\E*;", "Zb"]


def small_export(directory: Path) -> Path:
    """Write an export that ends some of its programs and not others, and return its directory."""
    save_export(ending_model(SIZES), directory, {"max_length": TRAINED_LENGTH})
    return directory
