"""The configuration: what is valid, and one clear line for what is not."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.config import RECIPES, Train, load_config, parse_config
from cadmus.docgen.config_reference import documents, readme
from cadmus.errors import InputError

QUICK = Path(__file__).parent.parent / "config" / "quick.yaml"
VALUES = yaml.safe_load(QUICK.read_text())


def changed(path, value):
    values = copy.deepcopy(VALUES)
    *parents, last = path.split(".")
    place = values
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("train.stepz", 3, "train.stepz: no such key; did you mean 'steps'?"),
        ("trian", {}, "trian: no such key; did you mean 'train'?"),
        ("dataset.templates.sums", {}, "dataset.templates.sums: no such key; there are basic_math, equality"),
        ("train.steps", "many", "train.steps: must be an integer, got 'many'"),
        (
            "evaluate.probe.inverse_regularisation",
            [10, 1],
            "evaluate.probe.inverse_regularisation: must be ascending, got [10.0, 1.0]",
        ),
        ("train.steps", 10.5, "train.steps: must be an integer, got 10.5"),
        ("train.batch_size", True, "train.batch_size: must be an integer, got True"),
        ("model.layers", 0, "model.layers: must be at least 1, got 0"),
        ("model.heads", 5, "x.yaml: model.heads: must divide width 128, got 5"),
        ("model.layers", 10**30, "model.layers: must be at most 1,000, got 1000"),
        ("model", {"layers": 1, "width": 6, "heads": 2, "mlp": 4}, "an even width per head, got 3"),
        ("dataset.values", {"low": 3, "high": 1}, "dataset.values: low 3 is above high 1"),
        ("dataset.max_length", 251, "dataset.max_length: must be at most 250, got 251"),
        ("dataset.templates.random.length", [9, 3], "low 9 is above high 3"),
        ("dataset.templates.random.length", [0, 3], "must be within 1 to 250, got [0, 3]"),
        ("dataset.templates.random.length", [1, 2, 3], "length must be at most 2, got [1, 2, 3]"),
        ("dataset.templates.random", 3, "random: must be a mapping, got 3"),
        ("dataset.values.high", 10**30, "dataset.values.high: must be at most 1,000, got 1000"),
        (
            "dataset.values.uniform_fraction",
            True,
            "uniform_fraction: must be a number, got True",
        ),
        (
            "dataset.shard_size",
            10,
            "dataset.shard_size: 10 splits 500000 programs into more than 1000 shards",
        ),
        ("dataset.templates.complete_algorithm.examples", [0, 3], "must be within 1 to 6, got [0, 3]"),
        ("dataset.templates.apply_labels.sequence_length", [1, 12], "must be within 1 to 9, got [1, 12]"),
        (
            "dataset.templates.equality.expression_lengths",
            [4],
            "expression_lengths.0: must be 1, 3, 5 or 7, got 4",
        ),
        (
            "dataset.templates.less_greater.operators",
            "+^",
            "less_greater.operators: must be some of +-*/%xn, got '+^'",
        ),
        ("dataset.templates.basic_math.operators", "", "must be some of +-*/%xn, got ''"),
        ("dataset.templates", {}, "dataset.templates: no template has train programs"),
        (
            "train.row_length",
            20,
            "too short for dataset.max_length 63 and the end token; set at least 64",
        ),
        ("train.ranks", 3, "batch_size: must be a multiple of ranks 3, got 256"),
        ("train.ranks", 0, "train.ranks: must be auto or an integer of at least 1, got 0"),
        ("train.ranks", "all", "train.ranks: must be auto or an integer of at least 1, got 'all'"),
        ("train.ranks", True, "train.ranks: must be auto or an integer of at least 1, got True"),
        ("train.micro_batch_size", 100, "micro_batch_size: must divide the 256 programs of a rank, got 100"),
        ("train.recipe", "slow", "train.recipe: must be 'paper' or 'fast', got 'slow'"),
        ("train.recipe", ["fast"], "train.recipe: must be 'paper' or 'fast', got ['fast']"),
        ("train.weight_decay", float("inf"), "train.weight_decay: must be a finite number, got inf"),
        ("train.learning_rate", "fast", "train.learning_rate: must be a number, got 'fast'"),
        ("train.zero_stage", True, "train.zero_stage: must be an integer, got True"),
        ("train.clip", 1.0, "muon does not learn with clipping"),
        ("train.zero_stage", 3, "the optimizer muon needs stage 1, got 3"),
        ("evaluate.grid", {"low": 1, "high": 0}, "low 1 is above high 0"),
        ("name", "../up", "name: must match ^[A-Za-z0-9][A-Za-z0-9_-]*$, got '../up'"),
    ],
)
def test_invalid_values_are_named(path, value, message):
    with pytest.raises(InputError) as caught:
        parse_config(changed(path, value), "x.yaml")
    text = str(caught.value)
    assert text.startswith("x.yaml: ")
    assert message in text
    assert "\n" not in text


def test_several_problems_are_counted():
    values = changed("train.stepz", 3)
    del values["train"]["steps"]
    with pytest.raises(InputError, match=r"did you mean 'steps'\? \(and 1 more problem\)"):
        parse_config(values, "x.yaml")


def test_files_that_are_no_config(tmp_path):
    path = tmp_path / "config.yaml"
    with pytest.raises(InputError, match=r"cannot read .*config.yaml: No such file"):
        load_config(path)
    path.write_text("name: [quick\ntrain: 3")
    with pytest.raises(InputError, match=r"config\.yaml, line 2: not valid YAML"):
        load_config(path)
    path.write_text("just text")
    with pytest.raises(InputError, match="must be a mapping, got 'just text'"):
        load_config(path)
    path.write_text("train:\n  steps: 3\n  batch_size: 4\n  steps: 5\n")
    with pytest.raises(InputError, match=r"config\.yaml, line 4: not valid YAML: duplicate key 'steps'"):
        load_config(path)
    path.write_bytes(b"\0")
    with pytest.raises(
        InputError, match=r"config\.yaml: not valid YAML: special characters are not allowed$"
    ):
        load_config(path)
    path.write_bytes(b"name: \xff")
    with pytest.raises(InputError, match="not UTF-8"):
        load_config(path)


def test_recipes_fill_in_what_is_not_given():
    paper = parse_config(changed("train.recipe", "paper"), "x.yaml").train
    assert paper.learning_rate == RECIPES["paper"]["learning_rate"] == 1e-4
    assert (paper.optimizer, paper.schedule, paper.betas) == ("adam", "cosine", [0.9, 0.95])
    overridden = parse_config(changed("train.learning_rate", "5e-4"), "x.yaml").train
    assert overridden.learning_rate == 5e-4
    assert overridden.optimizer == "muon"


def test_numbers_may_come_as_text_from_a_command_line():
    assert parse_config(changed("train.steps", "70"), "x.yaml").train.steps == 70
    assert parse_config(changed("dataset.values.low", "-9"), "x.yaml").dataset.values.low == -9


def test_the_dataset_digest_follows_what_is_sampled():
    config = parse_config(VALUES, "x.yaml")
    assert parse_config(changed("train.steps", 7), "x.yaml").dataset_digest() == config.dataset_digest()
    assert parse_config(changed("name", "other"), "x.yaml").dataset_digest() == config.dataset_digest()
    assert parse_config(changed("seed", 7), "x.yaml").dataset_digest() != config.dataset_digest()
    assert (
        parse_config(changed("dataset.values.low", -9), "x.yaml").dataset_digest() != config.dataset_digest()
    )


def test_the_order_of_operators_makes_no_difference():
    digests = {
        parse_config(changed("dataset.templates.equality.operators", text), "x.yaml").dataset_digest()
        for text in ("+-*", "*-+", "**+-")
    }
    assert len(digests) == 1


def test_every_shipped_config_is_valid():
    configs = sorted(QUICK.parent.glob("*.yaml"))
    assert QUICK in configs
    for path in configs:
        assert load_config(path).name == path.stem


def test_the_schema_and_the_reference_are_current():
    root = QUICK.parent.parent
    for path, text in documents(root).items():
        assert path.read_text() == text, f"{path.name} is out of date: run `cadmus config document`"


def test_a_section_is_documented_field_by_field():
    fields = readme(QUICK.parent.parent).split("## `train`")[1].split("## ")[0]
    assert all(f"| `{name}` |" in fields for name in Train.model_fields)
    assert "ZeRO" in fields


def test_a_config_extends_another(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "extends: quick\nname: base\ntrain: {steps: 7}\ndataset: {templates: {random: {train: 0}}}\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text("extends: base.yaml\nname: mine\ntrain: {batch_size: 64}\n")
    quick, mine = load_config(QUICK).model_dump(), load_config(path).model_dump()
    quick["name"] = "mine"
    quick["train"] |= {"steps": 7, "batch_size": 64}
    quick["dataset"]["templates"]["random"]["train"] = 0
    assert mine == quick


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: quik\nname: a", r"mine\.yaml: extends: no config 'quik'; did you mean 'quick'\?"),
        ("extends: other.yaml\nname: a", r"cannot read .*other\.yaml: No such file"),
        ("extends: mine.yaml\nname: a", r"mine\.yaml: extends: .*mine\.yaml extends this config; remove one"),
        ("extends: [quick]\nname: a", r"extends: must be the name or the path of a config, got \['quick'\]"),
        (
            "extends: quick",
            r"mine\.yaml: name: is missing; a config that extends another needs its own name",
        ),
        ("extends: text.yaml\nname: a", r"text\.yaml: must be a mapping, got 'just text'"),
        ("extends: quick\nname: a\ntrain: {stepz: 3}", r"mine\.yaml: train\.stepz: no such key"),
    ],
)
def test_what_cannot_be_extended_is_one_line(tmp_path, text, message):
    (tmp_path / "text.yaml").write_text("just text")
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def test_the_name_of_a_config_is_enough():
    shown = CliRunner().invoke(cadmus, ["config", "show", "quick", "--json"])
    assert json.loads(shown.stdout) == load_config(QUICK).model_dump()
    with pytest.raises(InputError, match=r"cannot read quik: No such file.*; did you mean 'quick'\?"):
        CliRunner().invoke(cadmus, ["config", "show", "quik"], catch_exceptions=False)
