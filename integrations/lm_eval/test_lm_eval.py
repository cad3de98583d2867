"""The tasks of the LM Evaluation Harness."""

from pathlib import Path

import pytest

from cadmus.config import Dataset
from cadmus.errors import InputError
from cadmus.evaluate.prompts.language_models import ALPHABETS, COMPARISONS
from cadmus.evaluate.questions import QUESTIONS
from integrations.conftest import POLICIES, asked, graded_constant, graded_model

lm_eval = pytest.importorskip("lm_eval")
N = 50


def evaluated(model, names, arguments="", **metadata):
    """Return the documents and metrics of each task."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager(
        include_path=str(Path(__file__).with_name("tasks")), metadata={"size": N, **metadata}
    )
    found = lm_eval.simple_evaluate(
        model, arguments, tasks=names, task_manager=manager, batch_size=64, bootstrap_iters=0
    )
    return found["samples"]


@pytest.fixture(scope="module")
def shipped(server):
    arguments = f"base_url={server}/completions,model=laptop,tokenizer_backend=None"
    return evaluated("local-completions", [f"cadmus_{name}" for name in QUESTIONS], arguments)


@pytest.mark.parametrize("question", QUESTIONS)
def test_grades_of_the_shipped_model_are_those_of_evaluate(shipped, question):
    samples = sorted(shipped[f"cadmus_{question}"], key=lambda sample: sample["doc_id"])
    found = asked(question, N)
    assert [sample["doc"]["prompt"] for sample in samples] == [task.prompt for task in found]
    assert [sample["solved"] for sample in samples] == graded_model(found)


def constant(text):
    """Return a model that answers everything with ``text``."""
    from lm_eval.api.model import LM

    class Constant(LM):
        def generate_until(self, requests):
            return [text] * len(requests)

        loglikelihood = loglikelihood_rolling = None

    return Constant()


@pytest.mark.parametrize("policy", POLICIES)
def test_trivial_policies_score_what_the_baselines_do(policy):
    questions = ["less_greater", "apply_labels", "basic_sequences", "equality"]
    samples = evaluated(constant(POLICIES[policy]), [f"cadmus_{name}" for name in questions])
    for name in questions:
        scores = [sample["solved"] for sample in samples[f"cadmus_{name}"]]
        assert scores == graded_constant(asked(name, N), POLICIES[policy])


@pytest.mark.parametrize("alphabet", ALPHABETS[1:])
def test_both_kinds_of_symbols(alphabet):
    samples = evaluated(constant(" ?\n"), ["cadmus_comparisons"], alphabet=alphabet)
    assert set(samples) == {f"cadmus_{name}" for name in COMPARISONS}
    for of_task in samples.values():
        assert all(sample["doc"]["text"].endswith("Answer:") for sample in of_task)
        # `?` is `<` in alternate symbols, and no comparator in normal ones.
        less = [alphabet == "alternate" and sample["doc"]["reference"] == "<" for sample in of_task]
        assert [sample["solved"] for sample in of_task] == less


def test_split_and_difficulty():
    dataset = {"templates": {"less_greater": {"expression_lengths": [7]}}}
    (samples,) = evaluated(
        constant("<"), ["cadmus_less_greater"], split="validation", dataset=dataset
    ).values()
    found = asked("less_greater", N, "validation", dataset=Dataset.model_validate(dataset))
    assert [sample["doc"]["prompt"] for sample in samples] == [task.prompt for task in found]


def test_bad_split_is_one_line():
    with pytest.raises(InputError, match="no split 'tset'; did you mean 'test'"):
        evaluated(constant("<"), ["cadmus_less_greater"], split="tset")
