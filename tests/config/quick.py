"""Values of config/quick.yaml to change in tests."""

import copy
from pathlib import Path

import yaml

QUICK = Path(__file__).parents[2] / "config" / "quick.yaml"
VALUES = yaml.safe_load(QUICK.read_text())


def changed(path, value):
    """Return VALUES with another value at a dotted path."""
    values = copy.deepcopy(VALUES)
    *parents, last = path.split(".")
    place = values
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return values
