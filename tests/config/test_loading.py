"""Reading of config files and their errors."""

import pytest

from cadmus.config import load_config, parse_config, read_yaml
from cadmus.errors import InputError
from tests.config.quick import QUICK, VALUES, changed

MINE = "extends: quick\nname: mine\n"
ALIAS = "not valid YAML: an alias of a list or a mapping"
CONTROL = "not valid YAML: a control character, or half of a surrogate pair, in a text"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [quick\ntrain: 3", ", line 2: not valid YAML: expected ',' or ']'"),
        ("just text", ": must be a mapping, got 'just text'"),
        ("name: a\nseed: 3\nname: b", ", line 3: not valid YAML: duplicate key 'name'"),
        ("\0", ": not valid YAML: special characters are not allowed"),
        ("name: \udcff", ": not readable ('utf-8' codec can't decode byte 0xff in position 6"),
        ("[" * 5000, ": not readable (maximum recursion depth exceeded"),
        ("[name]: x", ", line 1: not valid YAML: found unhashable key"),
        ("name: 2020-99-99", ": not readable (month must be in 1..12)"),
        ("name: a\nseed: " + "9" * 10_000, ", line 2: not valid YAML: an integer of more than 100 digits"),
        ("a: &a [*a]", f", line 1: {ALIAS}"),
        ("a: &a {b: 1}\nc: {<<: *a}", f", line 1: {ALIAS}"),
        ('name: a\nextends: "a\\0.yaml"', f", line 2: {CONTROL}"),
        (f'{MINE}study: {{variants: {{a: {{}}}}, question: "\\uD800"}}', f", line 3: {CONTROL}"),
        ("name: a\nextends: quik", ": extends: no config 'quik'; did you mean 'quick'?"),
        ("name: a\nextends: " + "a" * 5000, ": extends: no config 'aaaaa"),
        ("name: a\nextends: other.yaml", ": extends: cannot read {folder}/other.yaml: No such file"),
        ("name: a\nextends: mine.yaml", ": extends: {folder}/mine.yaml extends this config; remove one"),
        ("name: a\nextends: [quick]", ": extends: must be the name or the path of a config, got ['quick']"),
        ("extends: quick", ": name: is missing; a config that extends another needs its own name"),
        (f"{MINE}train: {{stepz: 3}}", ": train.stepz: no such key; did you mean 'steps'?"),
        (f"{MINE}seed: '{'9' * 10_000}'", ": seed: Exceeds the limit (4300 digits)"),
    ],
)
def test_an_invalid_file_gives_one_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}{message.format(folder=tmp_path)}")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "unused", "used"),
    [
        ("evaluate.loops", None, 2),
        ("model.loops", 1, 2),
        ("dataset.templates.trace", {"train": 0, "written": "steps"}, {"train": 5}),
        ("train.reinforcement.reward", "solved", "value"),
        ("model.mixer", "attention", "torch.nn:Linear"),
        ("train.deepspeed", {}, {"zero_optimization": {"stage": 2}}),
        ("dataset.only", None, ["equality"]),
    ],
)
def test_fields_that_are_gone_are_refused_if_in_use(field, unused, used):
    assert parse_config(changed(field, unused), "x.yaml") == parse_config(VALUES, "x.yaml")
    with pytest.raises(InputError, match=rf"^x\.yaml: {field}: this version has no .*; use commit \w+$"):
        parse_config(changed(field, used), "x.yaml")


def test_an_alias_of_a_text_is_valid(tmp_path):
    path = tmp_path / "table.yaml"
    path.write_text("a: &a text\nb: *a")
    assert read_yaml(path) == {"a": "text", "b": "text"}


def test_extends(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "extends: quick\nname: base\ntrain: {steps: 7}\ndataset: {templates: {basic_math: {train: 0}}}\n"
    )
    path = tmp_path / "mine.yaml"
    path.write_text("extends: base.yaml\nname: mine\ntrain: {batch_size: 64}\n")
    quick, mine = load_config(QUICK).model_dump(), load_config(path).model_dump()
    quick["name"] = "mine"
    quick["train"] |= {"steps": 7, "batch_size": 64}
    quick["dataset"]["templates"]["basic_math"]["train"] = 0
    assert mine == quick


def test_errors_name_the_extended_file(tmp_path):
    (tmp_path / "text.yaml").write_text("just text")
    path = tmp_path / "mine.yaml"
    path.write_text("extends: text.yaml\nname: a")
    with pytest.raises(InputError, match=r"text\.yaml: must be a mapping, got 'just text'"):
        load_config(path)


def test_an_error_says_that_there_were_changes():
    with pytest.raises(InputError) as caught:
        load_config(QUICK, {"dataset.values.low": 50})
    assert str(caught.value) == f"{QUICK} with --set: dataset.values: low 50 is above high 20"
