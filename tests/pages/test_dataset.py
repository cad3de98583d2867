"""The report of a dataset and its card."""

import re

import polars as pl
import pytest
import yaml
from click.testing import CliRunner
from huggingface_hub import DatasetCard

from cadmus.cli.main import cadmus
from cadmus.config import OOD, TEMPLATES, parse_config
from cadmus.dataset.manifest import read_manifest
from cadmus.pages import CITATION, LICENSE
from cadmus.pages.dataset import FATES, size_category, survey, write_report
from cadmus.vm.reference import run
from tests.checkout import ROOT
from tests.pages.conftest import VALUES, write


@pytest.mark.parametrize("name", ["tiny", "ruled"])
def test_the_command_writes_the_report(name, request):
    directory = request.getfixturevalue(name)
    done = CliRunner().invoke(cadmus, ["report", str(directory)], catch_exceptions=False)
    assert done.output == f"{directory}/report.md\n{directory}/README.md\n"
    text = (directory / "report.md").read_text()
    assert ("## OOD rules" in text) == ("Excluded by an OOD rule" in text) == (name == "ruled")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    for split, templates in read_manifest(directory)["splits"].items():
        for template, counts in templates.items():
            start = f"| {template.replace('_', ' ')} | {counts['programs']:,} | {counts['distinct']:,} | "
            assert any(line.startswith(start) for line in tables), (split, template)


def test_a_report_is_the_same_bytes_each_time_and_lists_the_rules(ruled):
    def written():
        texts = write_report(ruled)
        return {path: path.read_bytes() for path in texts}

    assert written() == written()
    text = (ruled / "report.md").read_text()
    matched = read_manifest(ruled)["ood"]["small"]
    assert f"| small | `values: [[-20, -15]]` (either) | equality {matched['equality']:,} |" in text
    assert "| maximum | `contains: ['x\\|', 'x']` |" in text


def test_a_dataset_that_compares_nothing_has_a_report(tmp_path):
    dataset = {"templates": {"basic_sequences": {"train": 20}}, "validation": 0, "test": 0}
    write_report(write(parse_config({**VALUES, "dataset": dataset}, "x.yaml"), tmp_path))
    assert OOD not in (tmp_path / "report.md").read_text()


def test_every_candidate_has_one_fate(tiny, ruled):
    for directory in (tiny, ruled):
        found = survey(directory)
        counts = found.counts
        assert (counts.select(pl.sum_horizontal(*FATES))["kept"] == counts["sampled"]).all()
        assert (counts["kept"] == counts["programs"]).all()
        assert found.size == sum(path.stat().st_size for path in directory.rglob("*.parquet"))


def test_examples_are_whole_programs_that_are_true(tiny):
    found = survey(tiny)
    assert list(found.examples) == list(TEMPLATES)
    for template, examples in found.examples.items():
        rows = pl.read_parquet(tiny / f"train/{template}-0000.parquet").head(3)
        assert examples == rows.select("program", "prompt_length", "x", "y").to_dicts()
        assert all(run(example["program"]).true for example in examples)


def test_the_card_describes_the_dataset(ruled):
    write_report(ruled)
    card = DatasetCard.load(ruled / "README.md")
    assert card.data.license == "mit"
    assert card.data.size_categories == ["n<1K"]
    files = {config["config_name"]: config["data_files"] for config in card.data.configs}
    assert list(files) == ["default", "equality", "basic_sequences"]
    found = {path for of_config in files.values() for file in of_config for path in ruled.glob(file["path"])}
    assert found == set(ruled.rglob("*.parquet"))
    manifest = read_manifest(ruled)
    assert f"- content: `{manifest['digest']}`" in card.text
    counts = [sum(of["programs"] for of in split.values()) for split in manifest["splits"].values() if split]
    assert f"| all | {' | '.join(map(str, counts))} |" in card.text
    matched = manifest["ood"]["small"]["equality"]
    assert f"| small | `values: [[-20, -15]]` (either) | equality {matched:,} |" in card.text
    assert "$" not in card.text
    example = pl.read_parquet(ruled / "train/equality-0000.parquet").row(0, named=True)
    (line,) = re.findall(r"^equality  .*$", card.text, re.MULTILINE)
    assert line.split() == [str(example[key]) for key in ("template", "program", "prompt_length", "x", "y")]


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
