"""Recipes end green: after all of them, the checks of the checkout pass as before."""

import pytest

from tests import recipes
from tests.checkout import copy_whole, python_in

TESTS = (
    *("tests/config/test_schema.py", "tests/evaluate/test_questions.py", "tests/figures/test_figures.py"),
    *("tests/dev/test_docs.py", "tests/templates/test_templates.py", "tests/test_plan.py"),
)
THROUGH_ALL = "reproducible or described or question or explains or seconds or shipped or counts"
"""Tests that go through all templates, experiments, figures, fields or documents."""


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


def test_style_types_and_layers_are_right(copy):
    python_in(copy, "-m", "ruff", "format", "--check", ".")
    python_in(copy, "-m", "ruff", "check", ".")
    python_in(copy, "-c", "from importlinter.cli import lint_imports_command as lint; lint()")
    python_in(copy, "-m", "mypy")


def test_what_is_added_is_described(copy):
    assert "dataset.templates.modular_sum" in (copy / "config/README.md").read_text(encoding="utf-8")
    assert "absolute difference of X and Y" in (copy / "docs/columns.md").read_text(encoding="utf-8")
    assert "z_weight" in (copy / "workflow/schemas/config.schema.json").read_text(encoding="utf-8")


def test_what_is_added_can_be_trained(copy):
    fields = {
        "train.confidence.weight": 0.1,
        "train.z_weight": 0.1,
        "train.schedule": "stable",
        "train.steps": 2,
    }
    code = f"""
from pathlib import Path
from cadmus import pipeline
from cadmus.config import load_config
run = load_config("tests/tiny.yaml", {fields | {"train.reinforcement.fraction": 0}})
pipeline.sample(run, "dataset")
pipeline.dataset(run, "dataset")
pipeline.train(run, "dataset", "model")
print(Path("training/metrics.jsonl").read_text())
"""
    printed = python_in(copy, "-c", code)
    assert '"entropy": 4.1' in printed
    assert '"z_loss": 17.' in printed


def test_the_tests_that_go_through_everything_pass(copy):
    python_in(copy, "-m", "pytest", "-q", "-x", "--numprocesses=0", "-k", THROUGH_ALL, *TESTS)
