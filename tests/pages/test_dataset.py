"""The card of a dataset."""

import json
import re

import polars as pl
import pytest
import yaml
from huggingface_hub import DatasetCard

from cadmus.config import OF_THE_PAPER, parse_config
from cadmus.dataset.manifest import Described, read_manifest_as
from cadmus.pages import CITATION, LICENSE
from cadmus.pages.dataset import size_category
from tests.checkout import ROOT
from tests.commands import invoke
from tests.pages.conftest import VALUES, write


@pytest.fixture
def card_of():
    def written(directory):
        invoke("card", directory)
        return DatasetCard.load(directory / "README.md")

    return written


def test_a_dataset_that_compares_nothing_has_a_card(card_of, tmp_path):
    dataset = {"templates": {"basic_sequences": {"train": 20}}, "validation": 0, "test": 0}
    text = card_of(write(parse_config({**VALUES, "dataset": dataset}, "x.yaml"), tmp_path)).text
    assert "OOD" not in text


def test_examples_are_the_first_programs_of_the_shards(card_of, tiny):
    text = card_of(tiny).text
    for template in OF_THE_PAPER:
        row = pl.read_parquet(tiny / f"data/train/{template}-0000.parquet").row(0, named=True)
        (line,) = re.findall(rf"^{template}  .*$", text, re.MULTILINE)
        shown = (row["program"], *(json.dumps(row[name]) for name in ("prompt_length", "x", "y")))
        assert line.split() == [template, *shown]


def test_the_card_describes_the_dataset(card_of, ruled):
    card = card_of(ruled)
    assert card.content == card_of(ruled).content
    assert card.data.license == "mit"
    assert card.data.size_categories == ["n<1K"]
    files = {config["config_name"]: config["data_files"] for config in card.data.configs}
    assert list(files) == ["default", "equality", "basic_sequences"]
    found = {path for of_config in files.values() for file in of_config for path in ruled.glob(file["path"])}
    assert found == set(ruled.rglob("*.parquet"))
    manifest = read_manifest_as(Described, ruled)
    assert f"- content: `{manifest.digest}`" in card.text
    counts = [sum(of["programs"] for of in split.values()) for split in manifest.splits.values() if split]
    assert f"| all | {' | '.join(map(str, counts))} |" in card.text
    matched = manifest.ood["small"]["equality"]
    assert f"| small | `values: [[-20, -15]]` (either) | equality {matched:,} |" in card.text
    assert "| maximum | `contains: ['x\\|', 'x']` |" in card.text
    assert "$" not in card.text


@pytest.mark.parametrize(
    ("programs", "category"), [(999, "n<1K"), (1_000, "1K<n<10K"), (80_200_000, "10M<n<100M")]
)
def test_the_hub_is_told_how_large_the_dataset_is(programs, category):
    assert size_category(programs) == category


def test_the_citation_is_that_of_the_checkout():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    assert citation["license"].lower() == LICENSE
    authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    for text in (paper["title"], paper["journal"], paper["url"], str(paper["year"]), *authors):
        assert text in CITATION
