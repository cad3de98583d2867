"""Fields of a config: checks, defaults and digests."""

import re

import pytest

from cadmus.config import PAPER, Train, find_config, load_config, parse_config, read_changes, what_counts
from cadmus.errors import InputError
from tests import labs
from tests.config.quick import QUICK, VALUES, changed


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("dataset.templates.sums", {}, "no such key; there are basic_math, equality"),
        ("train.steps", "many", "must be a valid integer, got 'many'"),
        ("model.layers", 0, "must be greater than or equal to 1, got 0"),
        ("model.heads", 3, "must divide width 128, got 3"),
        ("model", {"layers": 1, "width": 6, "heads": 2, "mlp": 4}, "an even width per head, got 3"),
        ("dataset.values", {"low": 3, "high": 1}, "low 3 is above high 1"),
        ("dataset.templates.random.length", [0, 3], "must be within 1 to 250, got [0, 3]"),
        ("dataset.templates.random.length", [1, 2, 3], "must have at most 2 items"),
        ("dataset.templates.random", 3, "must be a mapping, got 3"),
        ("dataset.values.uniform_fraction", True, "must be a valid number, got True"),
        ("dataset.shard_size", 10, "10 splits 220000 programs into more than 1000 shards"),
        ("dataset.templates.apply_labels.sequence_length", [1, 12], "must be within 1 to 9, got [1, 12]"),
        ("dataset.templates.equality.expression_lengths", [4], "0: must be 1, 3, 5 or 7, got 4"),
        ("dataset.templates.less_greater.operators", "+^", "must be some of +-*/%xn, got '+^'"),
        ("dataset.templates", {}, "no template has train programs"),
        ("train", {"steps": 2, "batch_size": 512, "ranks": 3}, "batch_size: must be a multiple of ranks 3"),
        ("train.ranks", 0, "must be auto or an integer of at least 1, got 0"),
        ("train.ranks", True, "must be auto or an integer of at least 1, got True"),
        ("train.micro_batch_size", 100, "must divide the 256 programs of a rank, got 100"),
        ("train.recipe", "slow", "must be 'paper' or 'fast', got 'slow'"),
        ("train.weight_decay", float("inf"), "must be a finite number, got inf"),
        ("train.clip", 1.0, "muon does not learn with clipping"),
        (
            "train.zero_stage",
            2,
            "muon keeps its whole state on every rank (stage 0); remove it, or set optimizer",
        ),
        ("train.zero_stage", 7, "must be 0, 1, 2 or 3, got 7"),
        (
            "train",
            {"steps": 2, "recipe": "paper", "zero_stage": 0},
            "zero_stage: must be 1, 2 or 3 with the optimizer adam, got 0",
        ),
        (
            "train.deepspeed",
            {"zero_optimization": {"stage": 2}},
            "this version has no settings of DeepSpeed except train.zero_stage; use commit 03c97771",
        ),
        (
            "train",
            {"steps": 2, "ranks": 4, "reinforcement": {"fraction": 0.5, "prompts": 6}},
            "reinforcement.prompts: must be a multiple of ranks 4, got 6",
        ),
        ("train.reinforcement.questions", ["random"] * 2, "duplicate 'random'"),
        (
            "train.reinforcement",
            {"fraction": 0.1, "samples": 10**18},
            "samples: must be less than or equal to",
        ),
        ("train.reinforcement.questions", ["equalty"], "0: no question 'equalty'; did you mean 'equality'?"),
        ("seed", 2**63, "must have at most 64 bits, got 9223372036854775808"),
        ("train.state_labels", {"top": 0}, "all weights are 0; set state_weight 0"),
        ("train.state_labels.magnitude", 1, "no such key; it is called top_number now"),
        ("train.pair_layer", 2, "this version has no other blocks for heads; use commit cd8ba462"),
        ("name", "../up", "must match pattern '^[A-Za-z0-9][A-Za-z0-9_-]*$', got '../up'"),
        *((*value, message) for message, value in labs.samples("REFUSED").items()),
    ],
)
def test_invalid_values(path, value, problem):
    with pytest.raises(InputError) as caught:
        parse_config(changed(path, value), "x.yaml")
    text = str(caught.value)
    assert text.startswith(f"x.yaml: {path}")
    assert problem in text
    assert "\n" not in text


def test_recipes_are_defaults():
    paper = parse_config(changed("train", {"recipe": "paper", "steps": 2}), "x.yaml").train
    assert paper.learning_rate == PAPER["learning_rate"] == 1e-4
    assert (paper.optimizer, paper.schedule, paper.betas) == ("adam", "cosine", [0.9, 0.95])
    overridden = parse_config(changed("train.learning_rate", "5e-4"), "x.yaml").train
    assert overridden.learning_rate == 5e-4
    assert overridden.optimizer == "muon"


def test_numbers_as_text():
    for steps in ("70", "7e1", 70.0):
        assert parse_config(changed("train.steps", steps), "x.yaml").train.steps == 70
    assert parse_config(changed("dataset.values.low", "-9"), "x.yaml").dataset.values.low == -9


def test_dataset_digest_depends_on_the_dataset_only():
    config = parse_config(VALUES, "x.yaml")
    assert parse_config(changed("train.steps", 7), "x.yaml").dataset_digest() == config.dataset_digest()
    assert parse_config(changed("name", "other"), "x.yaml").dataset_digest() == config.dataset_digest()
    assert parse_config(changed("seed", 7), "x.yaml").dataset_digest() != config.dataset_digest()
    assert (
        parse_config(changed("dataset.values.low", -9), "x.yaml").dataset_digest() != config.dataset_digest()
    )


def test_only_what_is_used_and_differs_from_the_default_counts():
    class Later(Train):
        penalty: float = 0.0

    def counted(section: type[Train], **fields):
        return what_counts(section(steps=7, **fields))

    assert counted(Later) == counted(Train) == {"steps": 7}
    assert counted(Later, penalty=0.5) == {"steps": 7, "penalty": 0.5}
    assert counted(Train, reinforcement={"samples": 3}) == {"steps": 7}
    used = {"fraction": 0.5, "samples": 3}
    assert counted(Train, reinforcement=used) == {"steps": 7, "reinforcement": used}
    # Recipes are other defaults; their values count.
    assert counted(Train, recipe="paper")["learning_rate"] == PAPER["learning_rate"]


def test_dataset_digest_ignores_the_order_of_operators():
    digests = {
        parse_config(changed("dataset.templates.equality.operators", text), "x.yaml").dataset_digest()
        for text in ("+-*", "*-+", "**+-")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("name", "digest"),
    [("quick", "34ff56e9b9803cef"), ("laptop", "4fab1688612a0e23"), ("paper", "3c48063ad757d02e")],
)
def test_dataset_digests_of_shipped_configs(name, digest):
    assert load_config(QUICK.with_stem(name)).dataset_digest() == digest


def test_shipped_configs():
    configs = sorted(QUICK.parent.glob("*.yaml"))
    assert QUICK in configs
    for path in configs:
        assert load_config(path).name == path.stem


def test_fields_are_changed_in_a_call(tmp_path):
    given = [
        "train.steps=7",
        "dataset.templates.random.train=5",
        "model={layers: 1, width: 8, heads: 2, mlp: 8}",
    ]
    run = load_config(find_config("quick"), read_changes(given))
    assert (run.train.steps, run.dataset.templates.random.train, run.model.width) == (7, 5, 8)
    assert run.train.batch_size == load_config(find_config("quick")).train.batch_size


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("train.steps", "--set train.steps: must be FIELD=VALUE, such as train.steps=100"),
        ("=3", "--set =3: must be FIELD=VALUE"),
        ("train.steps=[", "--set train.steps=[: the value is not valid YAML"),
        ("train.steps=2026-99-99", "--set train.steps=2026-99-99: not readable (month must be in 1..12)"),
    ],
)
def test_a_wrong_change_is_one_line(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        load_config(find_config("quick"), read_changes([given]))
