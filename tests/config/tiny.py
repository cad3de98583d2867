"""The tiny config and changes of it."""

from cadmus.config import Config, load_config, parse_config
from tests.checkout import ROOT

TINY = ROOT / "tests/tiny.yaml"


def tiny(**sections) -> Config:
    """Return the tiny config with changed fields in its sections."""
    values = load_config(TINY).model_dump()
    for name, changes in sections.items():
        values[name] = {**values[name], **changes}
    return parse_config(values, "test")
