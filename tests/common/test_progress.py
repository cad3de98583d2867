"""Progress bars, which only terminals show."""

import io
import sys

import pytest

from cadmus.common import progress
from cadmus.config import Dataset
from cadmus.dataset.sampler import sample


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("place", "delay", "shown"), [(Screen, 0, True), (Screen, 60, False), (io.StringIO, 0, False)]
)
def test_a_bar_appears_on_a_terminal_after_the_delay(monkeypatch, place, delay, shown) -> None:
    monkeypatch.setattr(sys, "stderr", place())
    monkeypatch.setattr(progress, "DELAY", delay)
    assert list(progress.progress("letters", "abc")) == ["a", "b", "c"]
    sample(Dataset(), 1, "equality", "train", 0, 5)
    written = sys.stderr.getvalue()
    assert ("letters: 100%" in written) == ("sample equality: 100%" in written) == shown
    assert shown or not written
