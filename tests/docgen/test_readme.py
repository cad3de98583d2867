"""The results in the README and docs/results."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from cadmus.docgen.readme import BEGIN, END, FILES, publish, results_page, with_results
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


def test_the_page_of_a_run_links_the_data_of_its_figures():
    page = results_page(ROOT / "docs/results/quick", ROOT)
    assert "[Data](docs/results/quick/comparison_grid.csv)" in page
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (ROOT / link).exists(), link


def test_an_unfinished_run_is_an_error(tmp_path):
    with pytest.raises(InputError, match="the run is not finished"):
        publish(tmp_path, ROOT)


def test_a_readme_without_a_place_for_results_is_an_error():
    with pytest.raises(InputError, match="needs one"):
        with_results(f"{BEGIN}{BEGIN}{END}", ROOT / "docs/results/quick", ROOT)


@pytest.fixture
def finished(tmp_path):
    """A finished run and a README to publish it in."""
    published = ROOT / "docs/results/quick"
    results = tmp_path / "results/quick"
    for name in FILES:
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("tables/"):
            shutil.copy(published / Path(name).name, results / name)
        else:
            (results / name).touch()
    (results / "experiments").mkdir()
    (results / "model").mkdir()
    origin = {"config_digest": "c0", "model_digest": "m0", "commit": "0123456789abcdef"}
    pl.DataFrame({"x": [1]}).write_parquet(results / "experiments/completions.parquet", metadata=origin)
    trained = {"parameters": 7, "steps": 3, "programs": 30, "tokens": 300, "seconds": 90.0, "cores": 2}
    (results / "model/meta.json").write_text(json.dumps(trained))
    (tmp_path / "README.md").write_text(f"# Title\n{BEGIN}\nearlier results\n{END}\nrest\n")
    return results


def test_a_finished_run_is_published(finished, tmp_path, monkeypatch):
    # The name of the run is not in this path.
    monkeypatch.chdir(finished)
    publish(Path("."), tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "7 parameters, trained on 30 programs (300 tokens) in 3 steps and 1.5 minutes" in text
    assert "commit `0123456789ab`" in text
    assert text.startswith("# Title\n")
    assert text.endswith("rest\n")
    assert "earlier results" not in text
    assert (tmp_path / "docs/results/quick/patching.png").is_file()
    assert (tmp_path / "docs/results/quick/patching.csv").is_file()


def _edit(results, **changes):
    path = results / "model/meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: _edit(r, cores="many"), r"meta\.json: cores: must be an integer, got 'many'"),
        (lambda r: _edit(r, seconds=0), r"meta\.json: seconds: must be above 0"),
        (lambda r: (r / "model/meta.json").write_text("{}"), r"meta\.json: parameters: is missing"),
        (lambda r: (r / "model/meta.json").write_text("[" * 100_000), r"meta\.json: nested too deeply"),
        (
            lambda r: (r / "experiments/completions.parquet").write_text("no"),
            "parquet: not readable",
        ),
        (
            lambda r: pl.DataFrame({"x": [1]}).write_parquet(r / "experiments/completions.parquet"),
            r"completions\.parquet: config_digest: is missing",
        ),
        (lambda r: (r / "tables/grid_regions.csv").write_bytes(b"\xff"), r"grid_regions\.csv: not"),
        (lambda r: (r.parents[1] / "README.md").unlink(), "cannot read .*README.md: No such file"),
        (lambda r: (r.parents[1] / "README.md").write_text("# Title"), r"README\.md: needs one"),
    ],
)
def test_nothing_is_written_of_a_damaged_run(finished, tmp_path, damage, message):
    damage(finished)
    with pytest.raises(InputError, match=message):
        publish(finished, tmp_path)
    assert not (tmp_path / "docs").exists()
