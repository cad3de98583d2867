"""`dataset.only`: two templates alone, in four lines."""

import pytest

from cadmus.config import TEMPLATES, load_config, parse_config
from cadmus.errors import InputError

ONLY = ["less_greater", "equality"]


def changed(**dataset):
    return load_config("quick", {f"dataset.{field}": value for field, value in dataset.items()})


def test_the_others_have_no_programs() -> None:
    quick, two = load_config("quick"), changed(only=ONLY)
    for name in TEMPLATES:
        expected = getattr(quick.dataset.templates, name).train if name in ONLY else 0
        assert getattr(two.dataset.templates, name).train == expected
    # Only their questions are rewarded.
    assert two.train.reinforcement.asked(two) == ["equality"]
    written_out = {f"templates.{name}.train": 0 for name in TEMPLATES if name not in ONLY}
    assert two.dataset_digest() == changed(**written_out).dataset_digest()
    # Written out with all defaults, it reads the same.
    assert parse_config(two.model_dump(), "test") == two


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (["equalty"], r"dataset\.only\.0: no template 'equalty'; did you mean 'equality'"),
        (["equality", "equality"], r"dataset\.only: duplicate 'equality'"),
        ([], r"dataset\.templates: no template has train programs"),
        ("equality", r"dataset\.only: must be a valid list, got 'equality'"),
        (
            ["less_greater"],
            r"train\.reinforcement\.questions: no template of these questions has train programs",
        ),
    ],
)
def test_bad_templates_are_one_line(only, message) -> None:
    with pytest.raises(InputError, match=message):
        changed(only=only)
    with pytest.raises(InputError, match=r"dataset\.only: random has no train programs"):
        changed(**{"only": ["random"], "templates.random.train": 0})
