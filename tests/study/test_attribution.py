"""Linear datamodelling scores, on losses made here."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cadmus import experiments, store
from cadmus.config.study import load_study
from cadmus.errors import InputError
from cadmus.study import attribution
from cadmus.study.attribution import (
    CEILING,
    Retrained,
    draw,
    evaluated,
    identities,
    read_retrained,
    read_scores,
)
from cadmus.train.subset import in_subset
from tests.checkout import ROOT
from tests.evaluate.samples import samples_of
from tests.study.exports import write_training

TEST = samples_of("basic_math", "34+7=", "12+0>", "25*1=", prompt_length=[4, 4, 4])
TRAIN = samples_of("basic_math", *(f"{a}{b}+{a}=" for a in range(1, 7) for b in range(1, 7)), prompt_length=4)
STUDY = f"""\
extends: {ROOT}/tests/tiny.yaml
name: demo
study:
  variants: {{all: {{}}, half: {{train: {{subset: {{fraction: 0.5}}}}}}}}
  repeat: {{half: {{field: train.subset.seed, times: 4}}}}
  seeds: [0, 1]
  experiments: [loss]
  compare: [held_out_loss]
"""


def retrained(noise=0.0, subsets=60, seeds=2):
    """Return losses that some scores decide, and these scores."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(len(TEST), len(TRAIN)))
    members = rng.random((subsets, len(TRAIN))) < 0.5
    losses = 100 - np.stack([members @ scores.T] * seeds, 1)
    losses += noise * rng.normal(size=losses.shape)
    return Retrained(Path("model"), TEST, TRAIN, members, losses), scores


def score(table, method):
    (row,) = table.filter(method=method, template="").to_dicts()
    return row


def test_scores_that_decide_the_losses_are_perfect_and_others_are_not():
    measured, scores = retrained()
    others = np.random.default_rng(1).normal(size=scores.shape)
    constant = np.zeros_like(scores)
    table = evaluated(measured, {"own": scores, "opposite": -scores, "others": others, "constant": constant})
    assert score(table, "own")["score"] == pytest.approx(1)
    assert score(table, "opposite")["score"] == pytest.approx(-1)
    assert score(table, "constant")["score"] == 0
    row = score(table, "others")
    assert row["low"] < 0 < row["high"]
    assert score(table, CEILING)["score"] == pytest.approx(1)
    assert table["template"].unique().sort().to_list() == ["", "basic_math"]
    assert len(draw(table).axes) == 2


def test_the_ceiling_is_what_the_right_scores_reach_despite_the_seeds():
    measured, scores = retrained(noise=4.0, subsets=400)
    table = evaluated(measured, {"own": scores})
    row, ceiling = score(table, "own"), score(table, CEILING)["score"]
    assert 0.5 < row["score"] < 0.9
    assert row["low"] < row["score"] < row["high"]
    assert ceiling == pytest.approx(row["score"], abs=0.05)


def test_one_seed_has_no_ceiling():
    measured, scores = retrained(seeds=1)
    assert CEILING not in evaluated(measured, {"own": scores})["method"].to_list()


def test_scores_of_ones_own_are_read_by_the_names_of_the_programs(tmp_path):
    measured, scores = retrained()
    names = [np.array(identities(samples)) for samples in (TEST, TRAIN)]
    assert names[0].tolist() == ["basic_math/0", "basic_math/1", "basic_math/2"]
    rows, columns = (np.random.default_rng(2).permutation(len(each)) for each in names)
    path = tmp_path / "mine.npz"
    shuffled = scores[np.ix_(rows, columns)]
    np.savez(path, scores=shuffled, test=names[0][rows], train=names[1][columns])
    assert (read_scores(path, measured) == scores).all()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"scores": np.zeros((2, 36))}, r"scores: must be finite, of shape \(test, train\), got \(2, 36\)"),
        ({"scores": np.full((3, 36), np.nan)}, "scores: must be finite"),
        (
            {"test": ["basic_math/0", "basic_math/1", "x"]},
            "test: no basic_math/2; name each of the 3 programs",
        ),
        ({"scores": np.array([[{}]])}, "give a .npz file with scores, test and train"),
        ({"train": None}, "give a .npz file with scores, test and train"),
    ],
)
def test_other_files_give_one_line(tmp_path, changes, problem):
    measured, scores = retrained()
    arrays = {"scores": scores, "test": identities(TEST), "train": identities(TRAIN), **changes}
    path = tmp_path / "mine.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(InputError, match=problem) as error:
        read_scores(path, measured)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Return a study with the losses of all runs, and the directory of the results."""
    path = tmp_path / "demo.yaml"
    path.write_text(STUDY)
    study = load_study(path)
    for number, run in enumerate(study.runs):
        if not (tmp_path / run.training).exists():
            write_training(tmp_path, run, [{"step": 1}], 1e12)
        table = pl.DataFrame(
            {
                "template": ["basic_math"] * 3,
                "program": TEST.programs.to_strings(),
                "prompt_length": [4] * 3,
                "tokens": [2] * 3,
                "loss": [float(number)] * 3,
                "floor": [None] * 3,
            },
            experiments.table("loss").schema,
        )
        place = tmp_path / run.evaluation / "experiments"
        place.mkdir(parents=True)
        store.write_parquet(place / "loss.parquet", "results", table, {})
    monkeypatch.setattr(attribution, "read_split", lambda *_: TRAIN)
    return study, tmp_path


def test_the_results_of_a_study_are_read(finished):
    study, results = finished
    read = read_retrained(study, results)
    assert read.model == results / study.runs[0].training / "model"
    assert read.losses[:, :, 0].tolist() == [[2, 3], [4, 5], [6, 7], [8, 9]]
    for row, run in zip(read.members, study.runs[2::2], strict=True):
        assert (row == in_subset(TRAIN, "basic_math", run.config.train.subset)).all()
    assert read.test.programs.to_strings() == TEST.programs.to_strings()


def test_a_study_that_does_not_fit_gives_one_line(finished, tmp_path):
    study, results = finished
    (results / study.runs[3].evaluation / "experiments/loss.parquet").unlink()
    with pytest.raises(InputError, match=r"^demo: half 0, seed 1: loss: did not start; run the study first$"):
        read_retrained(study, results)
    few = load_study(tmp_path / "demo.yaml", {"study.repeat.half.times": 2, "study.seeds": [0]})
    with pytest.raises(InputError, match=r"^demo: has 2 variants with a train.subset; attribution needs at "):
        read_retrained(few, results)
    other = load_study(tmp_path / "demo.yaml", {"study.variants.half.dataset.test": 61})
    with pytest.raises(InputError, match=r"^demo: attribution needs variants that differ in train alone; "):
        read_retrained(other, results)
    unmeasured = {"study.experiments": ["completions"], "study.compare": ["loss"]}
    with pytest.raises(InputError, match=r"^demo: study.experiments: attribution needs loss; add it$"):
        read_retrained(load_study(tmp_path / "demo.yaml", unmeasured), results)
