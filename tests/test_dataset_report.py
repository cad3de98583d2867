"""The report of a dataset: its numbers, figures and text."""

import re
from pathlib import Path

import matplotlib.image
import polars as pl
import pytest
import yaml
from click.testing import CliRunner
from huggingface_hub import DatasetCard
from matplotlib.colors import to_rgb

from cadmus.cli.main import cadmus
from cadmus.config import OOD, SPLITS, TEMPLATES, load_config, parse_config
from cadmus.dataset.manifest import read_manifest, write_manifest
from cadmus.dataset.shards import plan
from cadmus.dataset.writer import write_shard
from cadmus.docgen import hub
from cadmus.errors import InputError
from cadmus.report import FIGURES
from cadmus.report.card import _size_category
from cadmus.report.plots import DRAW
from cadmus.report.report import write_report
from cadmus.report.survey import FATES, survey

CONFIG = load_config(Path(__file__).parent / "tiny.yaml")
VALUES = {
    "name": "rules",
    "dataset": {
        "validation": 0,
        "test": 20,
        "shard_size": 60,
        "ood": {"small": {"values": [[-20, -15]]}, "maximum": {"contains": ["x|", "x"]}},
        "ood_programs": 25,
        "templates": {"equality": {"train": 100}, "basic_sequences": {"train": 50}},
    },
    "model": {"layers": 1, "width": 8, "heads": 2, "mlp": 16},
    "train": {"steps": 1},
}


def write(config, directory):
    for shard in plan(config):
        write_shard(config, directory, shard.template, shard.split, shard.number)
    write_manifest(config, directory)
    return directory


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write(CONFIG, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    return write(parse_config(VALUES, "x.yaml"), tmp_path_factory.mktemp("ruled"))


def test_the_survey_counts_what_polars_counts(tiny):
    found = survey(tiny)
    rows = pl.concat(
        pl.read_parquet(tiny / split / "*.parquet").select(
            pl.lit(split).alias("split"),
            pl.col("template").cast(pl.String),
            pl.col("program", "prompt_length", "x", "y"),
        )
        for split in SPLITS
    )
    place = ("split", "template")
    lengths = rows.group_by(*place, length=pl.col("program").str.len_bytes().cast(pl.Int64))
    assert rows_of(found.lengths) == rows_of(lengths.agg(programs=pl.len()))
    values = rows.unpivot(["x", "y"], index=place).drop_nulls()
    values = values.group_by(*place, "variable", pl.col("value").cast(pl.Int64)).agg(programs=pl.len())
    assert rows_of(found.values) == rows_of(values)
    symbols = rows.select(*place, symbol=pl.col("program").str.split("")).explode("symbol")
    assert rows_of(found.instructions.filter(pl.col("count") > 0)) == rows_of(
        symbols.group_by(*place, "symbol").agg(count=pl.len())
    )
    assert found.size == sum(path.stat().st_size for path in tiny.rglob("*.parquet"))


def rows_of(frame):
    return sorted(frame.rows())


def test_every_candidate_has_one_fate(tiny, ruled):
    for directory in (tiny, ruled):
        counts = survey(directory).counts
        assert (counts.select(pl.sum_horizontal(*FATES))["kept"] == counts["sampled"]).all()
        assert (counts["kept"] == counts["programs"]).all()


def test_examples_are_whole_programs_that_are_true(tiny):
    found = survey(tiny)
    assert list(found.examples) == list(TEMPLATES)
    for template, examples in found.examples.items():
        rows = pl.read_parquet(tiny / f"train/{template}-0000.parquet").head(3)
        assert [example.prompt + example.completion for example in examples] == rows["program"].to_list()
        assert [len(example.prompt) for example in examples] == rows["prompt_length"].to_list()
        assert all(example.verdict for example in examples)


@pytest.mark.parametrize("name", ["tiny", "ruled"])
def test_the_command_writes_the_report_and_its_figures(name, request):
    directory = request.getfixturevalue(name)
    done = CliRunner().invoke(cadmus, ["report", str(directory)], catch_exceptions=False)
    assert done.output == f"{directory / 'report.md'}\n{directory / 'README.md'}\n"
    text = (directory / "report.md").read_text()
    for figure in FIGURES:
        stem = directory / "report" / figure
        assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        assert min(matplotlib.image.imread(stem.with_suffix(".png")).shape[:2]) > 200
        assert len(pl.read_csv(stem.with_suffix(".csv"))) > 1
        assert text.count(f"(report/{figure}.") == 3
    assert ("## OOD rules" in text) == ("Excluded by an OOD rule" in text) == (name == "ruled")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    manifest = read_manifest(directory)
    for split, templates in manifest["splits"].items():
        for template, counts in templates.items():
            start = f"| {template.replace('_', ' ')} | {counts['programs']:,} | {counts['distinct']:,} | "
            assert any(line.startswith(start) for line in tables), (split, template)


def test_rules_are_listed_with_what_they_matched(ruled):
    write_report(ruled)
    text = (ruled / "report.md").read_text()
    matched = read_manifest(ruled)["ood"]["small"]
    assert f"| small | `values: [[-20, -15]]` (either) | equality {matched['equality']:,} |" in text
    assert "| maximum | `contains: ['x\\|', 'x']` |" in text


def test_a_report_is_the_same_bytes_each_time(ruled):
    def written():
        write_report(ruled)
        return {path: path.read_bytes() for path in (ruled / "report").iterdir()} | {
            name: (ruled / name).read_bytes() for name in ("report.md", "README.md")
        }

    assert written() == written()


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
    citation = yaml.safe_load((Path(__file__).parent.parent / "CITATION.cff").read_text())
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


def test_the_bars_of_acceptance_are_the_shares(tiny):
    found = survey(tiny)
    (axes,) = DRAW["acceptance"](found).axes
    train = found.counts.filter(split="train")
    for bars in axes.containers:
        fate = next(fate for fate, title in FATES.items() if title == bars.get_label())
        assert [bar.get_width() for bar in bars] == pytest.approx((train[fate] / train["sampled"]).to_list())


def test_held_out_programs_have_a_line_of_their_own(ruled):
    figure = DRAW["lengths"](survey(ruled))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train", "OOD"]
    values = DRAW["values"](survey(ruled)).axes[0]
    labels = values.get_legend_handles_labels()[1]
    assert {"x", "y", "x, OOD", "y, OOD"} <= set(labels)
    assert to_rgb(values.patches[0].get_facecolor()) == to_rgb("#EEEEEE")


def test_a_dataset_that_compares_nothing_has_a_report(tmp_path):
    templates = {"basic_sequences": {"train": 20}}
    dataset = {"templates": templates, "validation": 0, "test": 0}
    write(parse_config({**VALUES, "dataset": dataset}, "x.yaml"), tmp_path)
    write_report(tmp_path)
    assert (tmp_path / "report/values.png").exists()
    assert OOD not in (tmp_path / "report.md").read_text()


def test_a_missing_dataset_or_a_truncated_shard_is_named(ruled, tmp_path):
    with pytest.raises(InputError, match="is no finished dataset"):
        write_report(tmp_path)
    for path in ruled.rglob("*.*"):
        target = tmp_path / path.relative_to(ruled)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    (tmp_path / "report.md").unlink()
    shard = tmp_path / "test/equality-0000.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"equality-0000\.parquet: .*truncated"):
        write_report(tmp_path)
    assert not (tmp_path / "report.md").exists()
