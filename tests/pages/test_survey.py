"""The statistics of a dataset."""

import polars as pl
import pytest

from cadmus.config import SPLITS, TEMPLATES
from cadmus.pages.survey import FATES, survey
from cadmus.vm.reference import run


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
    symbols = rows.filter(split="train").select("template", symbol=pl.col("program").str.split(""))
    symbols = symbols.explode("symbol").group_by("template", "symbol").agg(count=pl.len())
    used = found.instructions.filter(pl.col("count") > 0)
    assert rows_of(used.drop("share")) == rows_of(symbols)
    assert used.group_by("template").agg(pl.sum("share"))["share"].to_list() == pytest.approx([1.0] * 9)
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
        assert examples == rows.select("program", "prompt_length", "x", "y").to_dicts()
        assert all(run(example["program"]).true for example in examples)
