"""The results in the README and docs/results."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from cadmus.docgen.readme import BEGIN, END, FILES, publish, with_results
from cadmus.errors import InputError
from tests.checkout import ROOT


def test_the_results_are_current():
    text = (ROOT / "README.md").read_text()
    assert with_results(text, ROOT / "docs/results/laptop", ROOT) == text, (
        "run `cadmus readme results/laptop`"
    )


def test_every_link_has_a_target():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "config/README.md"]:
        text = re.sub(r"`[^`\n]*`", "", document.read_text())
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_an_unfinished_run_is_an_error(tmp_path):
    with pytest.raises(InputError, match="the run is not finished"):
        publish(tmp_path, ROOT)


def test_a_readme_without_a_place_for_results_is_an_error():
    with pytest.raises(InputError, match="needs one"):
        with_results(f"{BEGIN}{BEGIN}{END}", ROOT / "docs/results/quick", ROOT)


def test_a_finished_run_is_published(tmp_path):
    published = ROOT / "docs/results/quick"
    results = tmp_path / "results/quick"
    for name in FILES:
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(published / Path(name).name, results / name)
    (results / "experiments").mkdir()
    (results / "model").mkdir()
    origin = {"config_digest": "c0", "model_digest": "m0", "commit": "0123456789abcdef"}
    pl.DataFrame({"x": [1]}).write_parquet(results / "experiments/completions.parquet", metadata=origin)
    trained = {"parameters": 7, "steps": 3, "programs": 30, "tokens": 300, "seconds": 90.0, "cores": 2}
    (results / "model/meta.json").write_text(json.dumps(trained))
    (tmp_path / "README.md").write_text(f"# Title\n{BEGIN}\nold\n{END}\nrest\n")
    publish(results, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "7 parameters, trained on 30 programs (300 tokens) in 3 steps and 1.5 minutes" in text
    assert "commit `0123456789ab`" in text
    assert text.startswith("# Title\n")
    assert text.endswith("rest\n")
    assert "old" not in text
    assert (tmp_path / "docs/results/quick/comparison_grid.png").is_file()
