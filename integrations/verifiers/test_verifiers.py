"""The taskset of verifiers."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from cadmus.evaluate.prompts.language_models import COMPARISONS
from cadmus.evaluate.questions import QUESTIONS
from integrations.conftest import POLICIES, asked, graded_constant, graded_model

pytest.importorskip("verifiers")
pytest.importorskip("cadmus_verifiers")

from cadmus_verifiers import CadmusConfig, CadmusTaskset


def taskset(question, **options):
    template = QUESTIONS[question].template
    return CadmusTaskset(CadmusConfig(template=template, question=question, **options))


def reward(task, reply, truncated=False):
    return asyncio.run(task.solved(SimpleNamespace(last_reply=reply, is_truncated=truncated)))


@pytest.mark.parametrize("question", QUESTIONS)
def test_tasks_are_those_of_the_split_and_their_references_solve_them(question):
    made = list(taskset(question, split="validation", seed=3).take(20))
    found = asked(question, 20, "validation", seed=3)
    assert [task.data.prompt for task in made] == [task.prompt for task in found]
    assert [task.data.reference for task in made] == [task.reference for task in found]
    assert all(asyncio.run(task.validate(None)) for task in made)
    assert reward(made[0], found[0].reference) == 1
    assert reward(made[0], found[0].reference, truncated=True) == 0
    assert reward(made[0], None) == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("question", ["less_greater", "apply_labels", "basic_sequences", "equality"])
def test_trivial_policies_score_what_the_baselines_do(question, policy):
    made = taskset(question, split="test").take(100)
    scores = [reward(task, POLICIES[policy]) for task in made]
    assert scores == graded_constant(asked(question, 100), POLICIES[policy])


@pytest.mark.parametrize("question", COMPARISONS)
def test_both_kinds_of_symbols(question):
    for alphabet in ("normal", "alternate"):
        for task in taskset(question, alphabet=alphabet).take(20):
            assert task.data.prompt.endswith("Answer:")
            assert asyncio.run(task.validate(None))
            # `?` is `<` in alternate symbols, and no comparator in normal ones.
            assert reward(task, "?") == (alphabet == "alternate" and task.data.reference == "<")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": "equalitty"}, "no template 'equalitty'; did you mean 'equality'"),
        ({"split": "tset"}, "no split 'tset'; did you mean 'test'"),
        ({"template": "random", "alphabet": "normal"}, "random: has no prompt in normal symbols"),
        ({"dataset": {"max_lenght": 3}}, "dataset: max_lenght"),
    ],
)
def test_bad_config_is_one_line(options, message):
    with pytest.raises(ValidationError, match=message):
        CadmusConfig(**options)


@pytest.mark.skipif(
    shutil.which("uv", path=Path(sys.executable).parent) is None, reason="uv is not installed"
)
def test_rewards_of_vf_eval_are_those_of_evaluate(server, tmp_path):
    folder = Path(sys.executable).parent
    options = {
        "-n": "8",
        "--max-concurrent": "2",
        "--model": "laptop",
        "--client.base-url": server,
        "--client.api-key-var": "CADMUS_API_KEY",
        "--env.agent.harness.id": "null",
        "--env.agent.runtime.type": "subprocess",
        "--env.taskset.template": "complete_algorithm",
        "--env.taskset.split": "test",
        "--sampling.temperature": "0",
        "--output-dir": tmp_path,
    }
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "CADMUS_API_KEY": "none"}
    command = [folder / "vf-eval", "cadmus_verifiers", "--no-push"]
    command += [part for option in options.items() for part in option]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)
    (file,) = tmp_path.glob("*/traces.jsonl")
    rewards = {}
    for line in file.read_text().splitlines():
        episode = json.loads(line)
        assert episode["ok"], episode["errors"]
        rewards[episode["task"]["data"]["idx"]] = episode["traces"][0]["rewards"]["solved"]["score"]
    assert [rewards[place] for place in range(8)] == graded_model(asked("complete_algorithm", 8))
