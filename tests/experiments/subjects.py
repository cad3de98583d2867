"""Subjects of experiments whose model is simulated."""

from types import SimpleNamespace
from typing import Any

from cadmus.config import parse_config


def subject_of(
    model: object, low: int, high: int, experiment: dict[str, dict[str, Any]], **dataset: Any
) -> Any:
    """Return a subject with a model that was trained on values from ``low`` to ``high``."""
    values = {
        "name": "simulated",
        "dataset": {
            "values": {"low": low, "high": high},
            "eval_fraction": 0.05,
            "templates": {"equality": {"train": 1}},
            **dataset,
        },
        "model": {"layers": 1, "width": 8, "heads": 2, "mlp": 16},
        "train": {"steps": 1},
        "evaluate": experiment,
    }
    return SimpleNamespace(config=parse_config(values, "simulated"), model=lambda: model)
