"""Recipes end green: after all of them, the checks of the checkout pass as before."""

import subprocess
import sys
from functools import partial
from http.server import ThreadingHTTPServer
from threading import Thread

import numpy as np
import polars as pl
import pytest

from cadmus.vm import reference
from tests import recipes
from tests.browsing import browser_page
from tests.checkout import check_types, copy_whole, environment_of, python_in
from tests.commands import python
from tests.explore.test_site import PREPARE, RUN, Quiet

TESTS = (
    *("tests/config/test_schema.py", "tests/evaluate/test_questions.py", "tests/figures/test_figures.py"),
    *("tests/dev/test_docs.py", "tests/templates/test_templates.py"),
)
THROUGH_ALL = (
    "(reproducible and entropy) or modular_sum or described or every "
    "or explains or seconds or shipped or counts"
)
"""Tests that go through all templates, experiments, fields or documents, and those of the new figure."""
TRAIN = """
from pathlib import Path
from cadmus import Cadmus, pipeline, sample
from cadmus.config import load_config
assert any("q" in program for program in sample("random", 300))
fields = {"confidence.weight": 0.1, "z_weight": 0.1, "schedule": "stable"}
fields |= {"steps": 2, "reinforcement.fraction": 0}
run = load_config("tests/tiny.yaml", {f"train.{name}": value for name, value in fields.items()})
pipeline.sample(run, "dataset")
pipeline.dataset(run, "dataset")
pipeline.train(run, "dataset", "model")
assert Cadmus.load("model").log_probabilities(["7q"])[0].shape == (2, 66)
print(Path("training/metrics.jsonl").read_text())
"""
WITHOUT_A_CASE = """
from dataclasses import replace
from cadmus import isa
row = replace(isa.BY_NAME["even"], symbol="q", name="square")
isa.INSTRUCTIONS += (row,)
import cadmus.vm.opcodes
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the checkout with all that the recipes add."""
    copy = copy_whole(tmp_path_factory.mktemp("recipes") / "cadmus")
    recipes.add_template(copy)
    recipes.add_experiment(copy)
    recipes.add_objective(copy)
    recipes.add_schedule(copy)
    recipes.add_lab(copy)
    python_in(copy, "-m", "dev.docs", "config")
    return copy


def test_what_is_added_is_described(copy):
    assert "dataset.templates.modular_sum" in (copy / "config/README.md").read_text(encoding="utf-8")
    assert "z_weight" in (copy / "workflow/schemas/config.schema.json").read_text(encoding="utf-8")


def test_programs_of_a_template_that_is_added_are_true(copy):
    programs = python_in(copy, "-m", "cadmus", "sample", "modular_sum", "-n", "100").splitlines()
    assert len(set(programs)) == 100
    assert all("%" in program and reference.run(program).true for program in programs)


def test_the_tests_that_go_through_everything_pass(copy):
    python_in(copy, "-m", "pytest", "-q", "-x", "--numprocesses=0", "-k", THROUGH_ALL, *TESTS)


@pytest.fixture(scope="module")
def trained(copy):
    """Return the copy with another instruction as well, and what a training with all of it printed."""
    recipes.add_instruction(copy)
    python_in(copy, "-m", "dev.docs", "config")
    return copy, python_in(copy, "-c", TRAIN)


def test_what_is_added_can_be_trained(trained):
    _, printed = trained
    assert '"entropy": 4.1' in printed
    assert '"z_loss": 17.' in printed


def test_an_experiment_that_is_added_is_run_and_drawn(trained):
    copy, _ = trained
    options = ("--model=model", "--config=tests/tiny.yaml", "--set=evaluate.entropy.programs=300")
    python_in(copy, "-m", "cadmus", "evaluate", "entropy", *options, "--output=entropy.parquet")
    python_in(copy, "-m", "cadmus", "figure", "entropy", "--results=entropy.parquet", "--output=entropy.pdf")
    found = pl.read_parquet(copy / "entropy.parquet")
    assert found["programs"].sum() == 300
    assert found["entropy"].is_between(0, np.log(66)).all()
    assert (copy / "entropy.pdf").read_bytes().startswith(b"%PDF")


def test_both_vms_and_the_manual_know_an_instruction(trained):
    copy, _ = trained
    assert "| `q` | square | a → b | a · a |  | `7q` leaves `49` |" in (copy / "docs/isa.md").read_text()
    tests = ("tests/vm/test_instructions.py", "tests/pages/test_manual.py")
    python_in(copy, "-m", "pytest", "-q", "-x", "--numprocesses=0", *tests)


def test_an_instruction_is_explored(trained, browser):
    copy, _ = trained
    python_in(copy, "-m", "cadmus", "explore", "--model", "model", "--static", "site")
    handler = partial(Quiet, directory=copy / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser_page(browser) as page:
        Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/explore.css")
        page.evaluate(PREPARE)
        assert page.evaluate(RUN, ["7q", "3Iq"]) == [
            [[{"value": 49, "decoration": 0}], True],
            [[[{"value": value, "decoration": 0} for value in (0, 1, 4)]], True],
        ]
        server.shutdown()


def test_shipped_models_say_why_they_cannot_be_asked_with_it(trained):
    copy, _ = trained
    command = [sys.executable, "-m", "cadmus", "complete", "34+7"]
    done = subprocess.run(command, cwd=copy, env=environment_of(copy), capture_output=True, text=True)
    assert done.returncode == 2
    assert "of instruction set " in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_instruction_without_a_case_of_the_compiled_vm_is_said():
    done = python("-c", WITHOUT_A_CASE)
    assert done.returncode == 1
    assert "square: no case of the compiled VM; add one to vm/opcodes.py" in done.stderr.splitlines()[-1]


def test_style_types_and_layers_are_right(trained):
    copy, _ = trained
    python_in(copy, "-m", "ruff", "format", "--check", ".")
    python_in(copy, "-m", "ruff", "check", ".")
    python_in(copy, "-c", "from importlinter.cli import lint_imports_command as lint; lint()")
    check_types(copy)
