"""The README shows the results that lie in docs/results, and nothing else."""

import re
from pathlib import Path

import pytest

from cadmus.errors import InputError
from cadmus.readme import BEGIN, END, publish, with_results

ROOT = Path(__file__).parent.parent


def test_the_results_are_current():
    text = (ROOT / "README.md").read_text()
    assert with_results(text, ROOT / "docs/results/quick", ROOT) == text, "run `cadmus readme results/quick`"


def test_every_link_leads_somewhere():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "config/README.md"]:
        text = re.sub(r"`[^`\n]*`", "", document.read_text())
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_an_unfinished_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="the run is not finished"):
        publish(tmp_path, ROOT)


def test_a_readme_without_a_place_for_results_is_refused():
    with pytest.raises(InputError, match="needs one"):
        with_results(f"{BEGIN}{BEGIN}{END}", ROOT / "docs/results/quick", ROOT)
