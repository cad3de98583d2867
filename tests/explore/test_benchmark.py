import json

import pytest
from click.testing import CliRunner

from cadmus.bench import exploring
from cadmus.cli.bench import bench
from cadmus.errors import InputError
from tests.checkout import ROOT


def test_benchmark_measures_the_server_and_the_page(browser, monkeypatch):
    monkeypatch.setattr(exploring, "PROGRAMS", 2)
    measured = json.loads(CliRunner().invoke(bench, ["explore", "--json"], catch_exceptions=False).stdout)
    published = json.loads((ROOT / "docs/results/bench_explore.json").read_text())
    assert set(measured) == set(published)
    assert 0 < measured["server_milliseconds"] <= measured["server_longest"]
    assert 0 < measured["page_milliseconds"] <= measured["page_longest"]


def test_benchmark_without_browser_or_model(browser, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="is not a model export"):
        exploring.bench_explore(tmp_path)
    monkeypatch.setattr(exploring, "BROWSERS", ("netscape",))
    with pytest.raises(InputError, match="needs a browser, one of netscape"):
        exploring.bench_explore(None)
