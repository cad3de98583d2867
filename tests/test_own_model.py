"""The page about models of one's own, executed on a tiny dataset."""

import re
import shutil

import polars as pl

from tests.checkout import ROOT


def test_the_page_trains_and_evaluates_a_model(tmp_path, monkeypatch, capsys):
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "tests/tiny.yaml", tmp_path / "config/quick.yaml")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/own-model.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    assert code.count("range(500)") == 1
    code = code.replace("range(500)", "range(3)")
    names = {}
    exec(code, names)
    assert len(names["programs"]) == 3_500
    table = pl.read_csv("table3_accuracy.csv")
    assert set(table.filter(policy="model")["metric"]) >= {"solved", "exact"}
    assert "best possible" in (tmp_path / "table3_accuracy.md").read_text().lower()
    assert names["induction"]["ceiling"].is_between(0, 1).all()
    assert names["rewards"].shape == (64,)
    assert "voted" in capsys.readouterr().out
