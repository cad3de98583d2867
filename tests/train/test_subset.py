"""Subsets of the training programs."""

from functools import partial

import numpy as np
import pytest

from cadmus import pipeline
from cadmus.config import Subset
from cadmus.dataset import manifest
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.evaluate.questions import named, things_asked
from cadmus.train import loop
from cadmus.train.subset import in_subset, subset_of
from tests.config.tiny import tiny
from tests.evaluate.samples import DATASET

HALF = Subset(fraction=0.5)


@pytest.mark.parametrize("template", ["equality", "basic_sequences", "complete_algorithm", "random"])
def test_programs_with_one_subject_are_in_a_subset_together(template):
    samples = sample(DATASET, 1, template, "train", 0, 400)
    lengths = samples.prompt_length.astype(np.int64)
    subjects = things_asked(named(template), samples.programs, lengths).to_numpy()
    for seed in (0, 1):
        chosen = in_subset(samples, template, Subset(fraction=0.5, seed=seed))
        assert not set(subjects[chosen]) & set(subjects[~chosen])
        assert 0.35 < chosen.mean() < 0.65


def test_a_subset_depends_on_its_seed_and_on_no_other_program():
    samples = sample(DATASET, 1, "equality", "train", 0, 400)
    chosen = in_subset(samples, "equality", HALF)
    tail = np.arange(300, 400)
    assert (in_subset(samples.take(tail), "equality", HALF) == chosen[tail]).all()
    other = in_subset(samples, "equality", Subset(fraction=0.5, seed=1))
    assert 0.35 < (chosen == other).mean() < 0.65
    # A larger fraction has the programs of a smaller one.
    assert (in_subset(samples, "equality", Subset(fraction=0.8))[chosen]).all()
    assert in_subset(samples, "equality", Subset()).all()
    assert not in_subset(samples, "equality", Subset(templates=["random"])).any()


def read(directory, split, templates=None):
    """Return the programs of some templates, as a dataset has them."""
    return [sample(DATASET, 1, name, split, 0, 100) for name in templates]


def test_every_reader_of_a_training_gets_the_subset(tmp_path, monkeypatch):
    subset = {"fraction": 0.5, "templates": ["equality", "random"]}
    config = tiny(train={"steps": 2, "subset": subset, "reinforcement": {"fraction": 0.0}})
    readers = []
    monkeypatch.setattr(loop, "train", lambda run, read, *_: readers.append(read))
    monkeypatch.setattr(manifest, "stream_split", read)
    monkeypatch.setattr(pipeline, "check_training", lambda *_: "digest")
    # Not the first rank, which would publish the files.
    monkeypatch.setenv("RANK", "1")
    pipeline.train(config, "data", tmp_path / "model")
    (chosen,) = readers
    wanted = []
    for name in ("equality", "random"):
        (samples,) = read("data", "train", [name])
        wanted.append(samples.take(in_subset(samples, name, config.train.subset)).programs.to_strings())
    assert [part.programs.to_strings() for part in chosen(None)] == wanted
    assert [part.programs.to_strings() for part in chosen(["random"])] == wanted[1:]
    with pytest.raises(InputError, match=r"^train.subset: leaves no program of less_greater; raise"):
        list(chosen(["less_greater"]))


def test_without_a_subset_nothing_is_read_in_another_way():
    whole = partial(read, "data", "train")
    assert subset_of(whole, tiny()) is whole
