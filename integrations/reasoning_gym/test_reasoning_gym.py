"""The dataset of Reasoning Gym."""

import pytest

from cadmus.config import OF_THE_PAPER
from cadmus.errors import InputError
from cadmus.evaluate.questions import QUESTIONS
from integrations.conftest import POLICIES, asked, graded_constant

reasoning_gym = pytest.importorskip("reasoning_gym")
pytest.importorskip("cadmus_reasoning_gym")


def dataset(question, **options):
    template = QUESTIONS[question].template
    return reasoning_gym.create_dataset("cadmus", template=template, question=question, **options)


@pytest.mark.parametrize("question", QUESTIONS)
def test_items_are_the_tasks_and_their_answers_score_1(question):
    made = dataset(question, split="validation", seed=3, size=30)
    found = asked(question, 30, "validation", seed=3)
    assert [item["question"] for item in made] == [task.prompt for task in found]
    assert [made.score_answer(item["answer"], item) for item in made] == [1] * 30
    assert made[29]["metadata"]["task"]["reference"] == found[29].reference
    assert [made.score_answer(answer, made[0]) for answer in (None, "q" * 1_000, 3, ["="])] == [0] * 4


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("question", ["less_greater", "apply_labels", "basic_sequences", "equality"])
def test_trivial_policies_score_what_the_baselines_do(question, policy):
    made = dataset(question, split="test", size=100)
    scores = [made.score_answer(POLICIES[policy], item) for item in made]
    assert scores == graded_constant(asked(question, 100), POLICIES[policy])


@pytest.mark.parametrize("alphabet", ["normal", "alternate"])
def test_comparisons_in_symbols_with_an_explanation(alphabet):
    made = dataset("less_greater", alphabet=alphabet, size=20)
    assert made[0]["question"].endswith("Answer:")
    assert [made.score_answer(f" {item['answer']}\n", item) for item in made] == [1] * 20
    # In alternate symbols `>` is not a comparator.
    right = [alphabet == "normal" and task.reference == ">" for task in asked("less_greater", 20, "train")]
    assert [made.score_answer(">", item) for item in made] == right


def test_any_item_is_the_same_in_any_order():
    made = dataset("less_greater", size=5_000)
    last = made[4_999]
    assert made[0] == dataset("less_greater", size=1)[0]
    assert last == dataset("less_greater", size=5_000)[4_999]
    with pytest.raises(IndexError):
        made[5_000]


def test_difficulty():
    made = dataset(
        "less_greater", dataset={"templates": {"less_greater": {"expression_lengths": [7]}}}, size=9
    )
    assert {len(item["question"]) for item in made} == {14}


def test_all_templates_take_turns_at_every_level():
    lengths = []
    for level in range(4):
        made = reasoning_gym.create_dataset("cadmus", template="all", split="test", level=level, size=90)
        items = list(made)
        of = [item["metadata"]["difficulty"]["template"] for item in items]
        assert of == [*OF_THE_PAPER] * 10
        assert [made.score_answer(item["answer"], item) for item in items] == [1] * 90
        difficulties = [item["metadata"]["difficulty"] for item in items]
        assert difficulties == [{"template": template, "level": level} for template in of]
        lengths.append(sum(len(item["question"]) for item in items[OF_THE_PAPER.index("less_greater") :: 9]))
    assert lengths == sorted(set(lengths))


def test_own_fields_are_on_top_of_the_level():
    made = dataset(
        "less_greater", level=3, dataset={"templates": {"less_greater": {"expression_lengths": [1]}}}
    )
    assert {len(item["question"]) for item in made} == {2}


def test_an_experiment_raises_the_level():
    from reasoning_gym.coaching.curriculum_config import CurriculumAttributeConfig, CurriculumExperimentConfig
    from reasoning_gym.coaching.experiment import CurriculumExperiment

    levels = CurriculumAttributeConfig(attribute_levels={"*": 1})
    config = CurriculumExperimentConfig(curricula={"cadmus": levels})
    experiment = CurriculumExperiment("cadmus", config, size=9, seed=1)
    for level in (1, 2):
        items = [experiment.get_dataset_entry(place) for place in range(9)]
        assert {item["metadata"]["difficulty"]["level"] for item in items} == {level}
        assert len({item["metadata"]["difficulty"]["template"] for item in items}) == 9
        for item in items:
            entry = item["metadata"]["entry_id"]
            assert experiment.score_answer_with_id(item["answer"], entry) == 1
        experiment.update_difficulty("cadmus", "increment")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": "equalitty"}, "no template 'equalitty'; did you mean 'equality'"),
        ({"size": 0}, "size: must be a whole number of at least 1, got 0"),
        ({"level": 4}, "level: must be 0 to 3, got 4"),
        ({"template": "all", "question": "equality"}, "basic_math has no question 'equality'"),
        ({"split": "tset"}, "no split 'tset'; did you mean 'test'"),
        ({"alphabet": "words"}, "no alphabet 'words'; there are program, normal, alternate"),
        ({"template": "random", "alphabet": "normal"}, "random: has no prompt in normal symbols"),
    ],
)
def test_bad_config_is_one_line(options, message):
    with pytest.raises(InputError, match=message):
        reasoning_gym.create_dataset("cadmus", **options)
