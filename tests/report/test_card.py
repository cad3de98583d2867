"""The dataset card."""

import re
from pathlib import Path

import polars as pl
import pytest
import yaml
from huggingface_hub import DatasetCard

from cadmus.dataset.manifest import read_manifest
from cadmus.docgen import hub
from cadmus.report.card import _size_category
from cadmus.report.report import write_report


def test_the_card_describes_the_dataset(ruled):
    write_report(ruled)
    card = DatasetCard.load(ruled / "README.md")
    assert card.data.license == "mit"
    assert card.data.size_categories == ["n<1K"]
    assert [config["config_name"] for config in card.data.configs] == [
        "default",
        "equality",
        "basic_sequences",
    ]
    manifest = read_manifest(ruled)
    assert f"- content: `{manifest['digest']}`" in card.text
    counts = [sum(of["programs"] for of in split.values()) for split in manifest["splits"].values() if split]
    assert f"| all | {' | '.join(map(str, counts))} |" in card.text
    matched = sum(manifest["ood"]["small"].values())
    assert f"- small: `values: [[-20, -15]], compared: either`, matched {matched:,} candidates" in card.text
    assert "$" not in card.text
    example = pl.read_parquet(ruled / "train/equality-0000.parquet").row(0, named=True)
    (line,) = re.findall(r"^equality  .*$", card.text, re.MULTILINE)
    assert line.split() == [str(example[key]) for key in ("template", "program", "prompt_length", "x", "y")]


def test_the_citation_is_that_of_the_checkout():
    citation = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    paper = citation["preferred-citation"]
    assert citation["license"].lower() == hub.LICENSE
    for text in (paper["title"], paper["journal"], paper["url"], str(paper["year"])):
        assert text in hub.CITATION
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in hub.CITATION


@pytest.mark.parametrize(
    ("programs", "category"), [(999, "n<1K"), (1_000, "1K<n<10K"), (80_200_000, "10M<n<100M")]
)
def test_the_hub_is_told_how_large_the_dataset_is(programs, category):
    assert _size_category(programs) == category
