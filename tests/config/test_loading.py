"""Reading of config files and their errors."""

import pickle
import re

import pytest

from cadmus.config import load_config, parse_config
from cadmus.errors import InputError
from tests.config.quick import QUICK, changed


def test_unreadable_files(tmp_path):
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


BOMB = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20))
MERGE_BOMB = "".join(f"  a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 5000, "nested too deeply"),
        ("{a: " * 5000, "nested too deeply"),
        ("a: 0x" + "f" * 5000, "line 1: not valid YAML: an integer too large"),
        ("[name]: x", "line 1: not valid YAML: a list or a mapping as a key"),
        ("{a: 1}: x", "line 1: not valid YAML: a list or a mapping as a key"),
        ("extends: quick\nname: a\ntrain: !!set {a}", "train: must be a mapping, got {'a'}"),
        ("name: a\nextends: " + "a" * 5000, "extends: no config 'aaaaa"),
        ("name: 2020-99-99", "not readable (month must be in 1..12)"),
        ("seed: !!int abc", "not readable (invalid literal for int() with base 10: 'abc')"),
        ("seed: !!bool abc", "not readable"),
        ("seed: " + "9" * 5000, "not readable (Exceeds the limit (4300 digits)"),
        ("a: &a [*a]", "line 1: not valid YAML: an alias inside of what it names"),
        ("values:\n  a0: &a0 [1]\n" + BOMB, "not valid YAML: more than 1,000,000 values"),
        ("values:\n  a0: &a0 {b: 1}\n" + MERGE_BOMB, "not valid YAML: more than 1,000,000 values"),
    ],
)
def test_errors_of_the_yaml_library_are_one_line_with_the_file(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_config(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 400


def test_count_of_problems():
    values = changed("train.stepz", 3)
    del values["train"]["steps"]
    with pytest.raises(InputError, match=r"did you mean 'steps'\? \(and 1 more problem\)"):
        parse_config(values, "x.yaml")


def test_extends(tmp_path):
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
        ("extends: other.yaml\nname: a", r"mine\.yaml: extends: cannot read .*other\.yaml: No such"),
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
def test_bad_extends(tmp_path, text, message):
    (tmp_path / "text.yaml").write_text("just text")
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def test_a_config_can_be_pickled():
    config = load_config(QUICK)
    assert pickle.loads(pickle.dumps(config)).model_dump() == config.model_dump()
