"""The task of Inspect."""

import pytest

from cadmus.errors import InputError
from cadmus.evaluate.prompts.language_models import COMPARISONS
from cadmus.evaluate.questions import QUESTIONS
from integrations.conftest import POLICIES, asked, graded_constant, graded_model

pytest.importorskip("inspect_ai")
pytest.importorskip("cadmus_inspect_ai")

from cadmus_inspect_ai import cadmus
from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

N = 50


def scores(made, model, directory):
    """Return what a model scores on the samples of each task, in order."""
    logs = evaluate(made, model, log_dir=str(directory), display="none")
    assert {log.status for log in logs} == {"success"}
    return [[sample.scores["solved"].value == "C" for sample in log.samples] for log in logs]


def constant(text):
    """Return a model that answers everything with ``text``."""

    def answer(*_, **__):
        # Without a usage, Inspect downloads a tokenizer to count tokens.
        return ModelOutput(choices=ModelOutput.from_content("", text).choices, usage=ModelUsage())

    return get_model("mockllm/model", memoize=False, custom_outputs=answer)


def test_scores_of_the_shipped_model_are_those_of_evaluate(server, tmp_path, monkeypatch):
    monkeypatch.setenv("CADMUS_BASE_URL", server)
    monkeypatch.setenv("CADMUS_API_KEY", "none")
    model = get_model("openai-api-completions/cadmus/laptop")
    found = scores([cadmus(question, size=N) for question in QUESTIONS], model, tmp_path)
    assert found == [graded_model(asked(question, N)) for question in QUESTIONS]


@pytest.mark.parametrize("policy", POLICIES)
def test_trivial_policies_score_what_the_baselines_do(policy, tmp_path):
    questions = ["less_greater", "apply_labels", "basic_sequences", "equality"]
    found = scores([cadmus(name, size=N) for name in questions], constant(POLICIES[policy]), tmp_path)
    assert found == [graded_constant(asked(name, N), POLICIES[policy]) for name in questions]


@pytest.mark.parametrize("alphabet", ["normal", "alternate"])
def test_both_kinds_of_symbols(alphabet, tmp_path):
    made = [cadmus(name, size=N, alphabet=alphabet) for name in COMPARISONS]
    assert all(sample.input.endswith("Answer:") for of in made for sample in of.dataset)
    # `?` is `<` in alternate symbols, and no comparator in normal ones.
    less = [
        [alphabet == "alternate" and task.reference == "<" for task in asked(name, N)] for name in COMPARISONS
    ]
    assert scores(made, constant(" ?\n"), tmp_path) == less


def test_split_and_difficulty():
    dataset = {"templates": {"less_greater": {"expression_lengths": [7]}}}
    made = cadmus(split="validation", seed=2, size=N, dataset=dataset)
    found = asked("less_greater", N, "validation", seed=2, dataset=dataset)
    assert [sample.input for sample in made.dataset] == [task.prompt for task in found]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"question": "equalitty"}, "no question 'equalitty'; did you mean 'equality'"),
        ({"size": -1}, "size: must be a whole number of at least 1, got -1"),
        ({"seed": "x"}, "seed: must be a whole number of at least 0, got 'x'"),
        ({"split": 3}, "no split 3; there are train"),
        ({"split": "tset"}, "no split 'tset'; did you mean 'test'"),
        ({"question": "random", "alphabet": "normal"}, "random: has no prompt in normal symbols"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        cadmus(**options)
