"""Exports without weights, of which a study reads the metadata alone."""

from pathlib import Path
from typing import Any

from cadmus import store
from cadmus.config import Config
from cadmus.model import METADATA, WEIGHTS


def write_metadata(directory: Path, run: Config, **noted: Any) -> None:
    directory.mkdir(parents=True)
    weights = directory / WEIGHTS
    weights.touch()
    described = {"model": run.model.model_dump(), **noted}
    store.write_json(directory / METADATA, "model", described, {WEIGHTS: weights})
