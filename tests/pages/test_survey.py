"""The statistics of a dataset, and the figures of its report."""

import itertools

import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from cadmus import isa
from cadmus.config import SPLITS, TEMPLATES
from cadmus.figures import style
from cadmus.pages.survey import FATES, acceptance, instructions, lengths, survey, values
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
    counted = rows.group_by(*place, length=pl.col("program").str.len_bytes().cast(pl.Int64))
    assert rows_of(found.lengths) == rows_of(counted.agg(programs=pl.len()))
    compared = rows.unpivot(["x", "y"], index=place).drop_nulls()
    compared = compared.group_by(*place, "variable", pl.col("value").cast(pl.Int64)).agg(programs=pl.len())
    assert rows_of(found.values) == rows_of(compared)
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


def test_acceptance_bars_match_the_fractions(tiny):
    found = survey(tiny)
    (axes,) = acceptance(found).axes
    train = found.counts.filter(split="train")
    for bars in axes.containers:
        fate = next(fate for fate, title in FATES.items() if title == bars.get_label())
        assert [bar.get_width() for bar in bars] == pytest.approx((train[fate] / train["sampled"]).to_list())


@pytest.mark.parametrize("name", ["tiny", "ruled"])
def test_labels_of_instruction_groups_do_not_overlap(name, request):
    figure = style.styled(instructions)(survey(request.getfixturevalue(name)))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    (above,) = figure.axes[0].child_axes
    labels = [*above.get_xticklabels(), *above.get_xticklabels(minor=True)]
    boxes = [Text.get_window_extent(text, renderer) for text in labels]
    assert len(boxes) == len({row.group for row in isa.INSTRUCTIONS if row.symbol != isa.END})
    assert not any(box.overlaps(other) for box, other in itertools.combinations(boxes, 2))
    assert all(box.x1 < figure.bbox.x1 and box.y1 < figure.bbox.y1 for box in boxes)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["never used"]


def test_value_panels_share_a_scale(tiny):
    axes = values(survey(tiny)).axes
    assert len({panel.get_ylim() for panel in axes if panel.axison}) == 1
    highest = max(patch.get_data().values.max() for panel in axes for patch in panel.patches[1:])
    assert axes[0].get_ylim()[0] == 0
    assert highest < axes[0].get_ylim()[1]


def test_ood_programs_have_their_own_line(ruled):
    figure = lengths(survey(ruled))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train", "OOD"]
    axes = values(survey(ruled)).axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert {"x", "y", "x, OOD", "y, OOD"} <= set(labels)
    assert to_rgb(axes.patches[0].get_facecolor()) == to_rgb("#EEEEEE")
