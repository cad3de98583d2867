"""The figures of the report."""

import pytest
from matplotlib.colors import to_rgb

from cadmus.report.plots import DRAW
from cadmus.report.survey import FATES, survey


def test_acceptance_bars_match_the_fractions(tiny):
    found = survey(tiny)
    (axes,) = DRAW["acceptance"](found).axes
    train = found.counts.filter(split="train")
    for bars in axes.containers:
        fate = next(fate for fate, title in FATES.items() if title == bars.get_label())
        assert [bar.get_width() for bar in bars] == pytest.approx((train[fate] / train["sampled"]).to_list())


def test_ood_programs_have_their_own_line(ruled):
    figure = DRAW["lengths"](survey(ruled))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train", "OOD"]
    values = DRAW["values"](survey(ruled)).axes[0]
    labels = values.get_legend_handles_labels()[1]
    assert {"x", "y", "x, OOD", "y, OOD"} <= set(labels)
    assert to_rgb(values.patches[0].get_facecolor()) == to_rgb("#EEEEEE")
