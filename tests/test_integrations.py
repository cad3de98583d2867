"""Integrations without the packages that they are for; `make integrations` tests them with these."""

import tomllib

import pytest
import yaml

from cadmus.evaluate.prompts.language_models import COMPARISONS
from cadmus.evaluate.questions import QUESTIONS
from tests.checkout import ROOT
from tests.commands import python

DIRECTORIES = sorted(path.parent for path in ROOT.glob("integrations/*/pyproject.toml"))
MISSING = {
    "inspect_ai": ("inspect_ai", "cadmus_inspect_ai needs inspect-ai, which is not installed"),
    "reasoning_gym": ("reasoning_gym", "cadmus_reasoning_gym needs reasoning-gym, which is not installed"),
    "trl": ("trl", "cadmus_trl needs trl, which is not installed; pip install trl"),
    "verifiers": ("verifiers", "cadmus_verifiers needs verifiers, which is not installed"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_package_is_one_line(name, tmp_path):
    package, message = MISSING[name]
    code = (
        f"import sys; sys.modules[{package!r}] = None; import cadmus_{name} as adapter; "
        f"sys.argv += ['--output', {str(tmp_path)!r}, '--held-out', '1']; adapter.main()"
    )
    done = python("-c", code, cwd=ROOT / "integrations" / name)
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_every_integration_has_a_readme_a_test_and_a_package(directory):
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    assert project["name"].startswith("cadmus-")
    assert (directory / f"test_{directory.name}.py").is_file()
    assert (directory / "README.md").read_text().startswith("# Cadmus in ")
    assert f"](../integrations/{directory.name}/README.md)" in (ROOT / "docs/integrations.md").read_text()


def test_the_harness_has_a_task_per_question():
    tasks = ROOT / "integrations/lm_eval/tasks"
    assert {path.stem for path in tasks.glob("*.yaml")} == {*QUESTIONS, "cadmus", "comparisons", "_cadmus"}
    for group, questions in {"cadmus": QUESTIONS, "comparisons": COMPARISONS}.items():
        members = yaml.safe_load((tasks / f"{group}.yaml").read_text())["task"]
        assert sorted(members) == sorted(f"cadmus_{question}" for question in questions)
