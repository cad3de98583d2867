"""Reading of config files and their errors."""

import pickle

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
