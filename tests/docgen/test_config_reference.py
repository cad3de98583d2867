"""config/README.md and the JSON schema."""

import json
from pathlib import Path

import jsonschema
import pytest

from cadmus.config import Train
from cadmus.docgen.config_reference import documents, readme

ROOT = Path(__file__).parents[2]


def test_generated_files_are_current():
    for path, text in documents(ROOT).items():
        assert path.read_text() == text, f"{path.name} is out of date: run `cadmus config document`"


def test_every_field_has_a_row():
    text = readme(ROOT)
    fields = text.split("## `train`")[1].split("## ")[0]
    assert all(f"| `{name}` |" in fields or f"## `train.{name}`" in text for name in Train.model_fields)
    assert "ZeRO" in fields


@pytest.mark.parametrize("change", [{"dataset": {"shard_size": 0}}, {"train": {"steps": -1}}])
def test_schema_rejects_values_out_of_bounds(change):
    described = json.loads((ROOT / "workflow/schemas/config.schema.json").read_text())
    config = {"name": "a", "extends": "quick"}
    jsonschema.validate(config, described)
    with pytest.raises(jsonschema.ValidationError, match="minimum"):
        jsonschema.validate(config | change, described)
