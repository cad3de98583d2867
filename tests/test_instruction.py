"""The guide of an instruction of one's own: applied as printed, then sampled, trained on and explored."""

import subprocess
import sys
from functools import partial
from http.server import ThreadingHTTPServer
from threading import Thread

import pytest

from tests import recipes
from tests.browsing import browser_page
from tests.checkout import copy_whole, environment_of, python_in
from tests.commands import python
from tests.explore.test_site import PREPARE, RUN, Quiet

TRAIN = """
from cadmus import Cadmus, pipeline, run, sample
from cadmus.config import load_config
assert any("q" in program for program in sample("random", 300))
run_config = load_config("tests/tiny.yaml", {"train.steps": 2, "train.reinforcement.fraction": 0})
pipeline.sample(run_config, "dataset")
pipeline.dataset(run_config, "dataset")
pipeline.train(run_config, "dataset", "model")
assert Cadmus.load("model").log_probabilities(["7q"])[0].shape == (2, 66)
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
    """Return a copy of the checkout with another instruction."""
    copy = copy_whole(tmp_path_factory.mktemp("instruction") / "cadmus")
    recipes.add_instruction(copy)
    python_in(copy, "-m", "dev.docs", "config")
    return copy


def test_both_vms_and_the_manual_know_it(copy):
    assert "| `q` | square | a → b | a · a |  | `7q` leaves `49` |" in (copy / "docs/isa.md").read_text()
    tests = ("tests/vm/test_instructions.py", "tests/pages/test_manual.py")
    python_in(copy, "-m", "pytest", "-q", "-x", "--numprocesses=0", *tests)


def test_it_is_sampled_trained_on_and_explored(copy, browser):
    python_in(copy, "-c", TRAIN)
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


def test_shipped_models_say_why_they_cannot_be_asked(copy):
    command = [sys.executable, "-m", "cadmus", "complete", "34+7"]
    done = subprocess.run(command, cwd=copy, env=environment_of(copy), capture_output=True, text=True)
    assert done.returncode == 2
    assert "of instruction set " in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_instruction_without_a_case_of_the_compiled_vm_is_said():
    done = python("-c", WITHOUT_A_CASE)
    assert done.returncode == 1
    assert "square: no case of the compiled VM; add one to vm/opcodes.py" in done.stderr.splitlines()[-1]
