"""An objective is one module and a field of the config."""

import re

import numpy as np
import pytest

from tests.checkout import ROOT, copy_folder
from tests.commands import python
from tests.train.runs import metrics, run_config, write_config


def test_an_objective_can_be_added_as_documented(tmp_path):
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8").split("## An objective of your own")[1]
    module, field, entry = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:3]
    copy_folder("cadmus", tmp_path)
    (tmp_path / "cadmus/train/objectives/z_loss.py").write_text(module, encoding="utf-8")
    config = tmp_path / "cadmus/config/training.py"
    changed = config.read_text(encoding="utf-8")
    for place, line in (("    precision: ", field), ('            "reinforcement": len', entry)):
        assert changed.count(place) == 1
        changed = changed.replace(place, line + place)
    config.write_text(changed, encoding="utf-8")
    values = run_config(steps=20, precision="fp32", z_weight=0.01)
    write_config(tmp_path / "run", values)
    done = python("-m", "tests.train.worker", tmp_path / "run", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 0, done.stderr
    lines = metrics(tmp_path / "run")
    # Of a model that has learned nothing, all 65 logits are near 0.
    assert lines[0]["z_loss"] == pytest.approx(np.log(65) ** 2, rel=0.02)
    assert lines[-1]["z_loss"] < lines[0]["z_loss"]
    assert list(lines[0])[:4] == ["step", "loss", "completion_loss", "z_loss"]
