"""Damaged inputs: every command succeeds or names the problem; and the fuzzer finds what does not."""

import json
import random
import subprocess
import sys

import pytest
import yaml

from tests.checkout import ROOT
from tests.inputs import mutators
from tests.inputs.runner import Ended, Mutant, find_problems
from tests.inputs.targets import ARGUMENTS, OTHER, TARGETS, Command
from tests.inputs.workspace import CONFIG

SHOW = Command("config show config.yaml --json", ("out.parquet",))
REFUSED = "cadmus: error: config.yaml: train.steps: must be at least 1, got 0\n"


def problems(**changed):
    ended = Ended(2, "", SHOW.line.split(), "", REFUSED, {"config.yaml": "1"}, {"config.yaml": "1"}, 0.1)
    return find_problems(Mutant(0, "config", "config.yaml", SHOW, "0 0"), ended._replace(**changed))


def test_damaged_inputs_are_valid_or_refused_in_one_line(request):
    options = [f"--mutants={request.config.option.mutants}", f"--seed={request.config.option.mutant_seed}"]
    command = [sys.executable, "-m", "tests.inputs", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]


def test_what_keeps_the_promise_has_no_problem():
    assert problems() == []
    assert problems(status=0, stdout="{}", stderr="") == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"stderr": "Traceback (most recent call last):\nKeyError: 'x'\n"}, "traceback: KeyError: 'x'"),
        ({"status": 1}, "exit code 1"),
        ({"status": -24}, "ended by SIGXCPU"),
        ({"stderr": "warning\n" + REFUSED}, "prints 2 lines"),
        ({"stderr": ""}, "the last line is not an error"),
        ({"stderr": "cadmus: error: train.steps: must be at least 1\n"}, "does not name config.yaml"),
        ({"stderr": REFUSED.replace("got", "\x1b")}, "prints control characters"),
        ({"after": {}}, "removed config.yaml, which is not an output"),
        ({"after": {"config.yaml": "2"}}, "changed config.yaml, which is not an output"),
        ({"after": {"config.yaml": "1", "out.parquet": "1"}}, "left out.parquet although it failed"),
        ({"after": {"config.yaml": "1", ".out.x1.parquet": "1"}}, "left the temporary file .out.x1.parquet"),
        ({"status": 0, "stdout": '{"loss": NaN}'}, "prints no JSON: NaN is not JSON"),
    ],
)
def test_a_broken_promise_is_found(changed, problem):
    assert problem in problems(**changed)[0]


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".jsonl"])
def test_a_seed_damages_a_file_in_one_way(suffix, tmp_path):
    path = tmp_path / f"file{suffix}"
    text = yaml.safe_dump(CONFIG) if suffix == ".yaml" else json.dumps(CONFIG) + "\n"
    found = []
    for seed in [*range(150), *range(150)]:
        path.write_text(text)
        change = mutators.mutate(path, random.Random(seed))
        found.append((change, path.read_bytes() if path.is_file() else b""))
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            path.rename(tmp_path / f"{len(found)}") if path.exists() else None
    assert found[:150] == found[150:]
    assert len(set(found)) > 100


def test_every_command_is_the_target_of_some_mutant():
    names = {command.line.split()[0] for target in TARGETS.values() for command in (*target.commands, *OTHER)}
    from cadmus.cli.main import cadmus

    # Checks and benchmarks read at most a config, as others do; `config document` writes a checkout.
    assert set(cadmus.commands) - names == {"attack", "bench", "fuzz", "kills"}
    assert ARGUMENTS not in TARGETS


def test_interrupted_commands_leave_nothing(tmp_path):
    output = tmp_path / "counts.json"
    command = [sys.executable, "-m", "tests.inputs.interrupts", "--interrupts=12", f"--output={output}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert json.loads(output.read_text())["interrupted"] > 0
