"""Trainings as a study reads them: exports without weights, metrics, and the manifest of the dataset."""

import json
from pathlib import Path
from typing import Any

from cadmus import store
from cadmus.config import Config
from cadmus.config.study import Run
from cadmus.model import METADATA, WEIGHTS


def write_metadata(directory: Path, run: Config, **noted: Any) -> None:
    directory.mkdir(parents=True)
    weights = directory / WEIGHTS
    weights.touch()
    described = {"model": run.model.model_dump(), **noted}
    store.write_json(directory / METADATA, "model", described, {WEIGHTS: weights})


def write_training(results: Path, run: Run, steps: list[dict[str, Any]], matmul_rate: float) -> None:
    """Write the files of a run that was trained."""
    dataset, training = results / run.dataset / "dataset", results / run.training
    dataset.mkdir(parents=True, exist_ok=True)
    (dataset / "manifest.json").write_text("{}")
    write_metadata(training / "model", run.config, matmul_rate=matmul_rate)
    (training / "training").mkdir()
    (training / "training/metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
