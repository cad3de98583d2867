"""``cadmus complete``."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cadmus import isa
from cadmus.cli.complete import complete as command
from cadmus.errors import InputError
from cadmus.model import shipped
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from cadmus.vm import reference
from tests.checkout import ROOT
from tests.cli.exports import PREFIXES, TRAINED_LENGTH


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(command, list(map(str, arguments)), input=stdin, catch_exceptions=False).stdout


def refused(*arguments, stdin=None):
    with pytest.raises(InputError) as caught:
        invoke(*arguments, stdin=stdin)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def objects(export, *options):
    text = "".join(prefix + "\n" for prefix in PREFIXES)
    return [
        json.loads(line)
        for line in invoke("-", "--json", "--model", export, *options, stdin=text).splitlines()
    ]


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
    lines = invoke("941-*55*2+", "--model", export, "--top", 3).splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines[:4] if " " in line)
    assert shown["prefix"] == "941-*55*2+"
    assert shown["completion"].startswith(expected["completion"])
    assert shown["verdict"] == ("true" if expected["true"] else "false")
    steps = lines[6:]
    assert len(steps) == len(expected["steps"])
    assert {len(line) for line in steps} == {len(steps[0])}, "aligned"
    for line, step in zip(steps, expected["steps"], strict=True):
        assert line.split()[1::2] == [row["instruction"] for row in step[:3]]
        assert float(line.split()[2].rstrip("%")) == pytest.approx(100 * step[0]["probability"], abs=0.051)


def test_each_line_of_standard_input_gives_a_line(export):
    lines = invoke("-", "--model", export, stdin="34+7\nu1b2b\n").splitlines()
    for line, answer in zip(lines, [objects(export)[0], objects(export)[4]], strict=True):
        program, verdict = line.split(" ")
        assert program == answer["program"] + isa.END * answer["ended"]
        assert verdict == ("true" if answer["true"] else "false")


def test_the_maximum_length_is_that_of_the_training_programs_by_default(export):
    assert max(len(answer["program"]) for answer in objects(export)) == TRAINED_LENGTH
    assert max(len(answer["program"]) for answer in objects(export, "--max-length", 30)) == 30
    whole = json.loads(invoke("1" * 12, "--json", "--model", export))
    assert whole["completion"] == ""
    assert "cut off after 30 instructions" in "".join(
        invoke(prefix, "--max-length", 30, "--model", export) for prefix in ("34+7", "rs", "0", "1")
    )


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("", "the prefix is empty"),
        ("34€7", "unknown symbol '€' at position 3"),
        ("34+7=.", "the prefix '34+7=.' has its end . at position 6"),
        ("1" * 13, "has 13 instructions, a program at most 12"),
    ],
)
def test_an_invalid_prefix_is_an_error(export, prefix, message):
    assert message in refused(prefix, "--model", export)
    assert refused("-", "--model", export, stdin=f"1\n{prefix}\n").startswith("line 2: ")


def test_an_invalid_model_is_an_error(export, tmp_path, monkeypatch):
    assert "is not a model export" in refused("1", "--model", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.json").write_text(json.dumps({"isa_digest": "0123"}))
    assert "trained on instruction set 0123" in refused("1", "--model", other)
    monkeypatch.setattr(shipped, "DEFAULT_MODEL", tmp_path / "models/laptop")
    message = refused("1")
    assert ": no model; pass one with --model DIR" in message
    monkeypatch.setattr(shipped, "DEFAULT_MODEL", export)
    assert "verdict" in invoke("1")


def test_the_default_model_is_in_the_checkout():
    assert shipped.DEFAULT_MODEL == ROOT / "models/laptop"


def test_the_command_imports_torch_and_nothing_heavier(export):
    code = (
        "import sys; from cadmus.cli.main import cadmus; "
        f"cadmus(['complete', '-12+', '--model', {str(export)!r}], standalone_mode=False); "
        "sys.exit(bool({'deepspeed', 'polars', 'matplotlib', 'sklearn', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("prefix      -12+\n")
