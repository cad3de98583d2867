"""The table of large language models."""

import pytest
import yaml

from cadmus.errors import InputError
from cadmus.llm.models import MODELS, read_models

ENTRY = {
    "model": "m",
    "endpoint": "chat",
    "transport": "direct",
    "usd_per_million_input": 0,
    "usd_per_million_output": 0,
    "source": "x",
}
WITHOUT_SOURCE = {field: value for field, value in ENTRY.items() if field != "source"}


def test_the_shipped_table():
    names = list(yaml.safe_load(MODELS.read_text()))
    assert [model.name for model in read_models(MODELS, names)] == names
    assert {"gpt-5", "gpt-5-mini", "cadmus"} <= set(names)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a b": ENTRY}, r"llms\.yaml: a b: must match .*, got 'a b'"),
        ({"a": {**ENTRY, "model": ""}}, r"llms\.yaml: a\.model: must have at least 1 character, got ''"),
        ({"a": {**ENTRY, "endpoint": "gpt"}}, r"a\.endpoint: must be 'chat', 'responses' or 'completions'"),
        ({"a": {**ENTRY, "transport": "mail"}}, r"a\.transport: must be 'batch' or 'direct', got 'mail'"),
        (
            {"a": {**ENTRY, "usd_per_million_input": -1}},
            r"_input: must be greater than or equal to 0, got -1",
        ),
        (
            {"a": {**ENTRY, "usd_per_million_output": float("nan")}},
            r"usd_per_million_output: must be a finite number, got nan",
        ),
        ({"a": {**ENTRY, "usd_per_million_output": "?"}}, r"_output: must be a valid number, got '\?'"),
        ({"a": WITHOUT_SOURCE}, r"a\.source: is missing"),
        ({"a": {**ENTRY, "sauce": "x"}}, r"a\.sauce: no such key; did you mean 'source'\?"),
        (
            {"a": {**ENTRY, "reasoning_effort": False}},
            r"a\.reasoning_effort: must be a valid string, got False",
        ),
        ({"a": 3}, r"llms\.yaml: a: must be a mapping, got 3"),
        ([], r"llms\.yaml: must be a mapping, got \[\]"),
        ({"b": ENTRY}, r"llm\.models: no model 'a' in .*llms\.yaml; there are b"),
    ],
)
def test_bad_tables(tmp_path, table, message):
    path = tmp_path / "llms.yaml"
    path.write_text(yaml.safe_dump(table))
    with pytest.raises(InputError, match=message) as error:
        read_models(path, ["a"])
    assert "\n" not in str(error.value)


def test_duplicate_names(tmp_path):
    path = tmp_path / "llms.yaml"
    path.write_text("a: {}\na: {}\n")
    with pytest.raises(InputError, match=r"llms\.yaml, line 2: not valid YAML: duplicate key 'a'"):
        read_models(path, ["a"])
