"""The top level of a config.

``python -m dev.docs config`` writes ``workflow/schemas/config.schema.json`` and ``config/README.md`` from the
sections' docstrings.
"""

import hashlib
import json
from typing import Any

from pydantic import model_validator

from cadmus.config.dataset import Dataset
from cadmus.config.evaluation import Evaluate, Llm
from cadmus.config.fields import Count, RunName, Section
from cadmus.config.templates import TEMPLATES
from cadmus.config.training import Model, Train


class Config(Section):
    """One run: its name, scale and data."""

    name: RunName
    """name of the run; results are in results/<name>"""
    seed: Count = 1
    """seed of all random choices"""
    dataset: Dataset
    model: Model
    train: Train
    evaluate: Evaluate = Evaluate()
    llm: Llm = Llm()

    @model_validator(mode="after")
    def _check(self) -> "Config":
        if not any(getattr(self.dataset.templates, name).train for name in TEMPLATES):
            raise ValueError("dataset.templates: no template has train programs; set train of at least one")
        needed = self.dataset.max_length + 1
        if self.train.row_length is not None and self.train.row_length < needed:
            raise ValueError(
                f"train.row_length: {self.train.row_length} is too short for dataset.max_length "
                f"{self.dataset.max_length} and the end token; set at least {needed}"
            )
        layer = self.train.state_layer
        if layer is not None and layer > self.model.layers:
            raise ValueError(
                f"train.state_layer: must be at most model.layers {self.model.layers}, got {layer}"
            )
        if self.evaluate.split not in self.dataset.splits:
            raise ValueError("evaluate.split: ood needs a rule in dataset.ood")
        most = self.evaluate.grid.programs_per_pixel
        for field in ("programs_per_pair", "grid_programs_per_pair"):
            if getattr(self.llm, field) > most:
                raise ValueError(
                    f"llm.{field}: must be at most evaluate.grid.programs_per_pixel {most}, "
                    f"got {getattr(self.llm, field)}"
                )
        return self

    def dataset_digest(self) -> str:
        """Return 16 hexadecimal digits of everything that decides which programs are sampled.

        Renamed fields count under their first name, the serialization alias, and OOD rules only if there
        are any, so that a dataset keeps its digest.
        """
        unused = set() if self.dataset.ood else {"ood", "ood_programs"}
        return digest({"seed": self.seed, "dataset": self.dataset.model_dump(exclude=unused, by_alias=True)})


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits of the hash of a JSON-serializable value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
