"""The figures of the report."""

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from cadmus import isa
from cadmus.pages import plots
from cadmus.pages.survey import FATES, survey


def test_acceptance_bars_match_the_fractions(tiny):
    found = survey(tiny)
    (axes,) = plots.acceptance(found).axes
    train = found.counts.filter(split="train")
    for bars in axes.containers:
        fate = next(fate for fate, title in FATES.items() if title == bars.get_label())
        assert [bar.get_width() for bar in bars] == pytest.approx((train[fate] / train["sampled"]).to_list())


@pytest.mark.parametrize("name", ["tiny", "ruled"])
def test_labels_of_instruction_groups_do_not_overlap(name, request):
    figure = plots.instructions(survey(request.getfixturevalue(name)))
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
    axes = plots.values(survey(tiny)).axes
    assert len({panel.get_ylim() for panel in axes if panel.axison}) == 1
    highest = max(patch.get_data().values.max() for panel in axes for patch in panel.patches[1:])
    assert axes[0].get_ylim()[0] == 0
    assert highest < axes[0].get_ylim()[1]


def test_ood_programs_have_their_own_line(ruled):
    figure = plots.lengths(survey(ruled))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train", "OOD"]
    values = plots.values(survey(ruled)).axes[0]
    labels = values.get_legend_handles_labels()[1]
    assert {"x", "y", "x, OOD", "y, OOD"} <= set(labels)
    assert to_rgb(values.patches[0].get_facecolor()) == to_rgb("#EEEEEE")
