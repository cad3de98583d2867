"""Expansion of a study into runs."""

import re

import pytest

from cadmus.config import load_config
from cadmus.config.fields import check_distinct
from cadmus.config.study import is_study, load_study
from cadmus.errors import InputError
from tests.checkout import ROOT

TINY = f"extends: {ROOT}/tests/tiny.yaml\nname: demo\n"


def study(directory, text):
    path = directory / "demo.yaml"
    path.write_text(f"{TINY}study: {text}\n")
    return path


def test_shipped_studies_are_valid():
    for path in (ROOT / "docs/findings").glob("**/study.yaml"):
        assert load_study(path).name == path.parent.name


def test_a_study_is_every_combination_of_variants_and_seeds(tmp_path):
    path = study(tmp_path, "{variants: {a: {}, b: {model: {tied: true}}}, seeds: [3, 4]}")
    found = load_study(path)
    assert is_study(path)
    assert [run.variant for run in found.runs] == ["a", "a", "b", "b"]
    assert found.base == "a"
    last = found.runs[-1]
    assert (last.config.model.tied, last.config.train.seed) == (True, 4)


def test_runs_share_what_does_not_differ(tmp_path):
    changes = "a: {}, b: {evaluate: {grid: {high: 23}}}, c: {train: {steps: 6}}, d: {dataset: {test: 61}}"
    runs = load_study(study(tmp_path, f"{{variants: {{{changes}}}, seeds: [0]}}")).runs
    assert len({run.dataset for run in runs}) == 2
    assert len({run.training for run in runs}) == 3
    assert len({run.evaluation for run in runs}) == 4


def test_another_study_shares_the_same_directories(tmp_path):
    text = "{variants: {short: {}, long: {train: {steps: 6}}}}"
    first = load_study(study(tmp_path, text)).runs
    second = load_study(study(tmp_path, "{variants: {longer: {train: {steps: 6}}}, seeds: [2]}")).runs
    assert {run.evaluation for run in second} < {run.evaluation for run in first}


def test_a_variant_may_change_what_decides_defaults(tmp_path):
    found = load_study(study(tmp_path, "{variants: {fast: {}, paper: {train: {recipe: paper}}}}"))
    assert {run.variant: run.config.train.optimizer for run in found.runs} == {
        "fast": "muon",
        "paper": "adam",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "study: variants: is missing"),
        ("{variants: {a: 3}}", "study: variants.a: must be a mapping, got 3"),
        ("{variants: {a: {train: {step: 1}}}}", "study: a: train.step: no such key; did you mean 'steps'?"),
        ("{variants: {a: {name: b}}}", "study: a: name: cannot differ between the runs of a study"),
        ("{variants: {a: {train: {seed: 1}}}}", "study: a: train.seed: list the seeds in study.seeds"),
        ("{variants: {a: {}, b: {}}}", "study: b: is the same as a; remove one, or change another field"),
        ("{variants: {a: {}}, seeds: []}", "study: seeds: must have at least 1 item"),
        ("{variants: {a: {}}, base: b}", "study: base: no variant 'b'; "),
        (f"{{variants: {{a: {{}}}}, seeds: {list(range(10_001))}}}", "describes 10,001 runs; at most"),
        (
            "{variants: {a: {}}, experiments: [curve]}",
            "study: experiments.0: no comparable experiment 'curve'; there are completions, loss",
        ),
        ("{variants: {a: {}}, experiments: [loss, loss]}", "study: experiments: duplicate 'loss'"),
        ("{variants: {a: {}}, compare: [accuracy]}", "study: compare: no metric 'accuracy'"),
        (
            "{variants: {a: {}}, experiments: [pass_at_k], compare: [solved@3]}",
            "study: compare: no metric 'solved@3'; did you mean 'solved@",
        ),
    ],
)
def test_an_invalid_study_gives_one_line(tmp_path, text, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load_study(study(tmp_path, text))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "demo.yaml"))


def test_a_single_run_is_no_study_and_a_study_no_single_run(tmp_path):
    path = study(tmp_path, "{variants: {a: {}}}")
    with pytest.raises(InputError, match="study: describes several runs; `cadmus study runs"):
        load_config(path)
    assert not is_study(ROOT / "tests/tiny.yaml")
    with pytest.raises(InputError, match="study: is missing; a study needs"):
        load_study(ROOT / "tests/tiny.yaml")


@pytest.mark.parametrize("text", ["", "[]", "study"])
def test_a_file_without_a_mapping_is_no_study(tmp_path, text):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    assert not is_study(path)


def test_a_million_seeds_are_checked_at_once():
    assert check_distinct([*range(10**6)])[-1] == 10**6 - 1
