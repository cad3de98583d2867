"""Subsets of the training programs, declared in ``train.subset``: to measure what models learn from which."""

from collections.abc import Collection, Iterator

import numpy as np

from cadmus import config
from cadmus.config import TEMPLATES
from cadmus.dataset.splits import hashes
from cadmus.errors import InputError
from cadmus.evaluate.questions import named, things_asked
from cadmus.programs import Programs, Samples, join
from cadmus.tools import seed_of
from cadmus.train.data import Read


def subset_of(read: Read, run: config.Config) -> Read:
    """Return a function that reads the programs of ``train.subset`` alone, the same ones on every rank."""
    subset = run.train.subset
    if subset == config.Subset():
        return read
    kept = subset.templates or [name for name in TEMPLATES if getattr(run.dataset.templates, name).train]

    def read_subset(templates: Collection[str] | None = None) -> Iterator[Samples]:
        for template in kept if templates is None else templates:
            programs = 0
            for samples in read([template]) if template in kept else ():
                chosen = samples.take(in_subset(samples, template, subset))
                programs += len(chosen)
                yield chosen
            if not programs:
                fix = "raise fraction, or change templates"
                raise InputError(f"train.subset: leaves no program of {template}; {fix}")

    return read_subset


def in_subset(samples: Samples, template: str, subset: config.Subset) -> np.ndarray:
    """Return which programs of a template are in a subset: bool, shape (n,).

    The hash of its subject decides, so a program is in the subset or not whatever else is in the dataset.
    """
    if template not in (subset.templates or TEMPLATES):
        return np.zeros(len(samples), np.bool_)
    prompt_length = samples.prompt_length.astype(np.int64)
    subjects = Programs.from_arrow(things_asked(named(template), samples.programs, prompt_length).to_arrow())
    key = f"{seed_of(subset.seed, 'subset', template)} ".encode()
    place = (hashes(join(key, subjects)) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return place < subset.fraction
