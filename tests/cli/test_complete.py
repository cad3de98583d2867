"""``cadmus complete``."""

import json

import pytest

from cadmus import isa
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from cadmus.vm import reference
from tests.cli.exports import PREFIXES, TRAINED_LENGTH
from tests.commands import invoke, refused


def complete(*words, **options):
    return invoke("complete", *words, **options).stdout


def objects(export, *options):
    return [json.loads(complete(prefix, "--json", *options, model=export)) for prefix in PREFIXES]


def test_completions_match_the_batched_decoder(export):
    found = objects(export)
    completions, ended = Cadmus.load(export).complete(Programs.from_strings(PREFIXES), TRAINED_LENGTH)
    assert [o["prefix"] for o in found] == PREFIXES
    assert [o["completion"] for o in found] == completions.to_strings()
    assert [o["ended"] for o in found] == ended.tolist()
    assert {True, False} <= set(ended.tolist())
    for answer in found:
        assert answer["program"] == answer["prefix"] + answer["completion"]
        assert answer["true"] == reference.run(answer["program"]).true


def test_the_most_likely_instructions_are_the_completion(export):
    for answer in objects(export, "--top", 65):
        greedy = "".join(step[0]["instruction"] for step in answer["steps"])
        assert greedy == answer["completion"] + isa.END * answer["ended"]
        for step in answer["steps"]:
            shares = [row["probability"] for row in step]
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) == pytest.approx(1, abs=1e-4)
            assert {row["instruction"] for row in step} == set(isa.BY_SYMBOL)


def test_one_prefix_is_shown_with_its_steps(export):
    (expected,) = (answer for answer in objects(export) if answer["prefix"] == "941-*55*2+")
    lines = complete("941-*55*2+", model=export, top=3).splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines[:4] if " " in line)
    assert shown["prefix"] == "941-*55*2+"
    assert shown["completion"].startswith(expected["completion"])
    assert shown["result"] == ("true" if expected["true"] else "false")
    steps = lines[6:]
    assert len(steps) == len(expected["steps"])
    assert {len(line) for line in steps} == {len(steps[0])}, "aligned"
    for line, step in zip(steps, expected["steps"], strict=True):
        assert line.split()[1::2] == [row["instruction"] for row in step[:3]]
        assert float(line.split()[2].rstrip("%")) == pytest.approx(100 * step[0]["probability"], abs=0.051)


def test_the_maximum_length_is_that_of_the_training_programs_by_default(export):
    assert max(len(answer["program"]) for answer in objects(export)) == TRAINED_LENGTH
    assert max(len(answer["program"]) for answer in objects(export, "--max-length", 30)) == 30
    whole = json.loads(complete("1" * 12, "--json", model=export))
    assert whole["completion"] == ""
    assert "cut off after 30 instructions" in "".join(
        complete(prefix, max_length=30, model=export) for prefix in ("34+7", "rs", "0", "1")
    )


def test_options_without_a_meaning_are_errors(export):
    assert refused("complete", "1", temperature="nan", model=export) == "--temperature nan: must be finite"
    assert "--seed: the greedy completion is not" in refused("complete", "1", seed=1, model=export)


def test_samples_give_a_line_each(export, monkeypatch):
    shown = complete("34+7", "-n", 5, model=export).splitlines()
    assert len(shown) == 5
    assert len(set(shown)) > 1
    for line in shown:
        program, result = line.split(" ")
        assert program.startswith("34+7")
        assert result == ("true" if reference.run(program).true else "false")
    assert complete("34+7", "-n", 2, model=export).splitlines() == shown[:2]
    assert complete("34+7", "-n", 5, seed=1, model=export).splitlines() != shown
    monkeypatch.setattr("cadmus.cli.complete.AT_ONCE", 2)
    assert complete("34+7", "-n", 5, model=export).splitlines() == shown
    # A single one is shown with its steps.
    one = complete("34+7", temperature=1, model=export)
    assert one == complete("34+7", "-n", 1, model=export)
    assert one.startswith("prefix      34+7\ncompletion  ")
    assert "most likely first" in one
    cold = json.loads(complete("34+7", "--json", temperature=0.001, model=export))
    assert cold == objects(export)[0]


def test_spaces_are_ignored(export):
    assert complete(" 34 + 7", model=export) == complete("34+7", model=export)


def test_a_device_that_is_not_available_is_an_error(export):
    for device in ("nowhere", "meta", "privateuseone"):
        assert f"--device {device}: not available" in refused("complete", "1", model=export, device=device)
    assert complete("1", model=export, device="cpu") == complete("1", model=export)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("", "the prefix is empty"),
        ("1" * 13, "has 13 instructions, a program at most 12; raise --max-length"),
    ],
)
def test_an_invalid_prefix_is_an_error(export, prefix, message):
    assert message in refused("complete", prefix, model=export)


def test_an_invalid_model_is_an_error(export, tmp_path, monkeypatch):
    assert "is not a model export" in refused("complete", "1", model=tmp_path)
    monkeypatch.setattr("cadmus.model.DEFAULT_MODEL", tmp_path / "models/laptop")
    assert ": no model; pass one with --model DIR" in refused("complete", "1")
    monkeypatch.setattr("cadmus.model.DEFAULT_MODEL", export)
    assert "result" in complete("1")
