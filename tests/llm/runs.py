"""A run of the comparison on the command line, and its expected results."""

import json
import subprocess
import sys

import polars as pl
import pytest
import yaml
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.llm.comparison import Comparison
from cadmus.llm.outcomes import OUTCOMES
from tests.checkout import ROOT
from tests.llm.server import request_key
from tests.llm.solver import errs

KEY = "sk-test-4321-not-to-be-seen"
TABLE = {
    "chat": {"endpoint": "chat"},
    "effort": {"endpoint": "chat", "reasoning_effort": "low"},
    "responses": {"endpoint": "responses"},
    "plain": {"endpoint": "completions", "usd_per_million_input": 0, "usd_per_million_output": 0},
    "batch": {"endpoint": "responses", "transport": "batch", "reasoning_effort": "high"},
    "chat-batch": {"endpoint": "chat", "transport": "batch"},
    "stranger": {"endpoint": "chat", "model": "gpt-unknown"},
}
DEFAULTS = {
    "model": "gpt-test",
    "transport": "direct",
    "usd_per_million_input": 1,
    "usd_per_million_output": 10,
    "source": "x",
}
VALUES = 3
PAIRS = (2 * VALUES + 1) ** 2


class Run:
    """A run in its own directory; steps are commands."""

    def __init__(self, directory, *models, **llm):
        self.directory = directory
        self.config = directory / "config.yaml"
        self.table = directory / "llms.yaml"
        self.table.write_text(yaml.safe_dump({name: {**DEFAULTS, **entry} for name, entry in TABLE.items()}))
        self.llm = {"models": list(models), "max_output_tokens": [64], "grid_max_output_tokens": 64, **llm}
        self.configure()

    def configure(self, **llm):
        self.llm |= llm
        self.config.write_text(
            yaml.safe_dump(
                {
                    "name": "test",
                    "dataset": {
                        "values": {"low": -VALUES, "high": VALUES},
                        "templates": {"equality": {"train": 1}},
                    },
                    "model": {"layers": 1, "width": 8, "heads": 1, "mlp": 8},
                    "train": {"steps": 1},
                    "evaluate": {"grid": {"low": -VALUES - 1, "high": VALUES + 1, "programs_per_pixel": 2}},
                    "llm": self.llm,
                }
            )
        )

    def arguments(self, step, *arguments):
        own = ["--config", self.config, "--table", self.table, "--directory", self.directory / "llm"]
        return ["llm", step, *map(str, own), *map(str, arguments)]

    def step(self, step, *arguments):
        done = CliRunner().invoke(cadmus, self.arguments(step, *arguments), catch_exceptions=False)
        return done.output

    def refused(self, step, *arguments):
        with pytest.raises(InputError) as caught:
            CliRunner().invoke(
                cadmus, self.arguments(step, *arguments), catch_exceptions=False, standalone_mode=False
            )
        assert "\n" not in str(caught.value)
        assert KEY not in str(caught.value)
        return str(caught.value)

    def start(self, step, *arguments):
        command = [sys.executable, "-m", "cadmus", *self.arguments(step, *arguments)]
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def comparison(self):
        return Comparison(load_config(self.config), self.directory / "llm", self.table)

    def score(self):
        self.step("score", "--output", self.directory / "answers.parquet")
        return pl.read_parquet(self.directory / "answers.parquet")

    def replies(self, name):
        path = self.directory / f"llm/replies/{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def requests(self, name):
        text = (self.directory / f"llm/requests/{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def outcomes(answers):
    counts = dict(answers["outcome"].value_counts().iter_rows())
    return {name: counts.get(name, 0) for name in OUTCOMES}


def expected_outcomes(run, name, faults=None):
    """Return the outcomes if every request is answered, from the requests alone."""
    wrong = sum(errs(line["body"]) for line in run.requests(name))
    return {**dict.fromkeys(OUTCOMES, 0), "correct": len(run.requests(name)) - wrong, "wrong": wrong}


def seen(server, run, name):
    """Return how often the server saw each request of a model."""
    counted = server.stats.seen
    return [counted[request_key(line["url"], line["body"])] for line in run.requests(name)]


def posts(server):
    return [place for _, place, _ in server.stats.arrivals if place.startswith("POST")]
