"""The reward of TRL, and a short GRPO run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cadmus.evaluate.questions import QUESTIONS
from integrations.conftest import POLICIES, asked, graded_constant, graded_model

pytest.importorskip("trl")
cadmus_trl = pytest.importorskip("cadmus_trl")
END = 0
README = Path(__file__).with_name("README.md")


def rewards(found, completions, ended=True, alphabet="program"):
    rows = [cadmus_trl.row(task, alphabet) for task in found]
    columns = {name: [row[name] for row in rows] for name in ("prompt", "program", "reference", "question")}
    ids = [[7, 7, END] if ended else [7, 7] for _ in completions]
    reward = cadmus_trl.solved(END, alphabet)
    return reward(prompts=columns.pop("prompt"), completions=completions, completion_ids=ids, **columns)


@pytest.mark.parametrize("question", QUESTIONS)
def test_references_are_rewarded_if_they_end(question):
    found = asked(question, 20, "train")
    references = [task.reference for task in found]
    assert rewards(found, references) == [1] * 20
    assert rewards(found, references, ended=False) == [0] * 20


def test_the_process_reward_is_the_fraction_of_tokens_before_a_completion_is_lost():
    (task,) = asked("basic_sequences", 1, "train")
    row = {name: [value] * 3 for name, value in cadmus_trl.row(task).items() if name != "prompt"}
    lost = task.reference[:-1] + "<"
    completions, ids = [task.reference, lost, task.reference], [[7, END], [7, END], [7, 7]]
    rewards = cadmus_trl.valued(END)(completions=completions, completion_ids=ids, **row)
    n = len(task.reference) + 1
    assert rewards == pytest.approx([1, (n - 2) / n, (n - 1) / n])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("question", ["less_greater", "apply_labels", "basic_sequences", "equality"])
def test_trivial_policies_score_what_the_baselines_do(question, policy):
    found = asked(question, 100)
    assert rewards(found, [POLICIES[policy]] * 100) == graded_constant(found, POLICIES[policy])


def test_both_kinds_of_symbols():
    found = asked("less_greater", 20, "train")
    less = [task.reference == "<" for task in found]
    assert rewards(found, [" <\n"] * 20, alphabet="normal") == less
    assert rewards(found, [" ?\n"] * 20, alphabet="alternate") == less


def test_no_completion_raises_an_error():
    """Plain and conversational rows, missing, cut off, and none at all."""
    found = asked("less_greater", 9, "train")
    right = [task.reference for task in found]
    turns = [{"role": "user", "content": "1"}, {"role": "assistant", "content": right[1]}]
    tool = [{"role": "assistant", "content": None, "tool_calls": []}]
    replies = [right[0], turns, f"{right[2]}.", None, [], tool, [{"role": "assistant"}], "748++=", 3.5]
    assert rewards(found, replies) == [1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert rewards(found, replies, ended=False) == [0] * 9
    assert rewards(found, replies, alphabet="normal")[:3] == [1, 1, 0]
    assert rewards([], []) == []


def test_supervised_fine_tuning_learns_the_end(tmp_path):
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    model = cadmus_trl.find_model(None)
    rows = [{"prompt": task.prompt, "completion": task.reference} for task in asked("equality", 8, "train")]
    options = {"report_to": "none", "use_cpu": True, "bf16": False, "gradient_checkpointing": False}
    trainer = SFTTrainer(
        AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        args=SFTConfig(str(tmp_path), per_device_train_batch_size=8, **options),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    (batch,) = trainer.get_train_dataloader()
    assert (batch["labels"] == END).sum(-1).tolist() == [1] * 8


def test_the_readme_cuts_programs_for_fine_tuning():
    from datasets import Dataset

    (code,) = re.findall(r"^rows = .*?^\)$", README.read_text(), re.MULTILINE | re.DOTALL)
    found = asked("equality", 5, "train")
    columns = [{"program": t.prompt + t.reference, "prompt_length": len(t.prompt)} for t in found]
    names = {"programs": Dataset.from_list(columns)}
    exec(code, names)
    pairs = [(row["prompt"], row["completion"]) for row in names["rows"]]
    assert pairs == [(task.prompt, task.reference) for task in found]


def test_the_measure_is_that_of_evaluate():
    found = asked("equality", 50)
    assert cadmus_trl.measure(cadmus_trl.find_model(None), found).tolist() == graded_model(found)


def test_grpo_writes_an_export_and_its_measures(tmp_path):
    from cadmus import Cadmus

    options = {"--output": tmp_path / "model", "--steps": "2", "--prompts": "2", "--held-out": "40"}
    command = [
        sys.executable,
        "-m",
        "cadmus_trl",
        *(str(part) for option in options.items() for part in option),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("solved: before ")
    result = json.loads((tmp_path / "model" / "grpo.json").read_text())
    assert {name: result["config"][name] for name in ("held_out", "template", "steps", "seed")} == {
        "held_out": 40,
        "template": "equality",
        "steps": 2,
        "seed": 1,
    }
    assert {"before", "after", "gap", "baseline", "weights", "commit"} <= result.keys()
    completions, _ = Cadmus.load(tmp_path / "model").complete(["34+"])
    assert completions.to_strings()[0].endswith("=")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--template", "equalitty"], "no template 'equalitty'; did you mean 'equality'?"),
        (["--model", "nowhere"], "nowhere is not a model export"),
        (["--dataset", '{"max_lenght": 3}'], "dataset: max_lenght"),
        (["--dataset", "{3}"], "--dataset: not valid JSON"),
        (["--dataset", "[" * 100_000], "--dataset: not valid JSON"),
        (["--steps", "0"], "Invalid value for '--steps': 0 is not in the range x>=1."),
        (["--learning-rate", "nan"], "Invalid value for '--learning-rate'"),
    ],
)
def test_bad_options_are_one_line(options, message, tmp_path):
    command = [sys.executable, "-m", "cadmus_trl", "--output", str(tmp_path / "model"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
