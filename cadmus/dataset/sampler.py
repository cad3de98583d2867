"""Sampling: candidates of a template are executed, filtered and deduplicated into programs of one split."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cadmus.config import OOD, Dataset
from cadmus.dataset.splits import Seen, hash_split, hashes, matches, split_of_hashes
from cadmus.errors import InputError, suggest
from cadmus.programs import Programs, Samples
from cadmus.templates import TEMPLATES, Draw
from cadmus.tools import progress, seed_of
from cadmus.vm import compiled

BATCH = 1 << 16
"""Candidates per batch; changing it changes every shard."""
MIN_NEW_FRACTION = 1 / 8
"""Fraction of new programs in a batch below which its duplicates are kept."""
WINDOW = 10
"""Batches between two checks of the acceptance rate."""
MIN_ACCEPTED_FRACTION = 1e-5
"""Fraction of a window's candidates below which sampling gives up."""


@dataclass
class Counts:
    """Outcome counts of the candidates, in the order of the checks."""

    sampled: int = 0
    """Candidates requested of the template."""
    unfit: int = 0
    """Dropped by the template, for example because no answer can be written."""
    too_long: int = 0
    """Longer than dataset.max_length."""
    other_split: int = 0
    """In another split by their text, or true but not matched by an OOD rule in the split ood."""
    rejected: int = 0
    """Not true when executed."""
    ood: int = 0
    """Excluded by an OOD rule."""
    duplicates: int = 0
    """Dropped because they are in this shard or an earlier one."""
    duplicates_kept: int = 0
    """Kept although duplicates, as the template has hardly any new programs left."""
    surplus: int = 0
    """Good, but more than requested."""
    kept: int = 0
    """In the shard."""


class Sampler:
    """A sampler of one shard; each template, split and shard has its own random stream.

    ``matched`` counts for each OOD rule of the template the true candidates in the hash range of the split.
    """

    def __init__(self, dataset: Dataset, seed: int, template: str, split: str, shard: int) -> None:
        check_names(dataset, template, split)
        self.dataset, self.template, self.split = dataset, template, split
        self.counts = Counts()
        self.repeats = getattr(dataset.templates, template).repeats
        self.rules = dataset.rules_for(template)
        self.matched = dict.fromkeys(self.rules, 0)
        self._draw = Draw(np.random.default_rng(seed_of(seed, template, split, shard)), dataset)

    def sample(self, count: int, earlier: Sequence[np.ndarray] = ()) -> Samples:
        """Sample ``count`` programs; those with hashes (uint64) in ``earlier`` count as duplicates.

        There are fewer only in the split ood, if no rule names the template and hardly any program matches.
        """
        counts = self.counts
        batches: list[Samples] = []
        seen = Seen(count + BATCH + sum(map(len, earlier)))
        for hashed in earlier:
            seen.add(hashed)
        kept_before = 0
        with progress(f"sample {self.template}", total=count, unit="program") as bar:
            while counts.kept < count:
                kept = self.batch(seen)
                surplus = max(0, counts.kept - count)
                counts.surplus += surplus
                counts.kept -= surplus
                bar.update(counts.kept - bar.n)
                batches.append(kept.take(np.arange(len(kept) - surplus)))
                if counts.kept < count and counts.sampled % (WINDOW * BATCH) == 0:
                    of_window = counts.kept - kept_before
                    kept_before = counts.kept
                    if of_window < MIN_ACCEPTED_FRACTION * WINDOW * BATCH:
                        if self.split == OOD and not any(rule.templates for rule in self.rules.values()):
                            break
                        raise self._too_few(count, of_window)
        return Samples.concat(batches) if batches else Samples(Programs.from_strings([]), np.empty(0))

    def batch(self, seen: Seen) -> Samples:
        """Sample a batch of candidates and return the programs to keep, all in ``seen`` from then on."""
        counts = self.counts
        counts.sampled += BATCH
        candidates = TEMPLATES[self.template](self._draw, BATCH)
        counts.unfit += BATCH - len(candidates)
        short = candidates.programs.lengths <= self.dataset.max_length
        if not short.all():
            counts.too_long += int(np.sum(~short))
            candidates = candidates.take(short)

        # Before the execution, which takes longer: most candidates of a held-out split are in another one.
        hashed = hashes(candidates.programs)
        ours = split_of_hashes(hashed, self.dataset.eval_fraction) == hash_split(self.split)
        counts.other_split += int(np.sum(~ours))
        rows = np.flatnonzero(ours)
        true = compiled.are_true(candidates.programs.take(rows))
        counts.rejected += int(np.sum(~true))
        rows = rows[true]

        if self.rules:
            by_rule = matches(self.rules.values(), candidates.take(rows))
            for name, hits in zip(self.rules, by_rule, strict=True):
                self.matched[name] += int(hits.sum())
            wanted = by_rule.any(axis=0) == (self.split == OOD)
            if self.split == OOD:
                counts.other_split += int(np.sum(~wanted))
            else:
                counts.ood += int(np.sum(~wanted))
            rows = rows[wanted]

        first = seen.add(hashed[rows])
        new = int(first.sum())
        if self.repeats or new < MIN_NEW_FRACTION * len(rows):
            counts.duplicates_kept += len(rows) - new
        else:
            counts.duplicates += len(rows) - new
            rows = rows[first]
        counts.kept += len(rows)
        return candidates.take(rows)

    def summary(self) -> dict[str, Any]:
        """Return the outcome counts and, if the dataset has OOD rules, the matches of each."""
        counts = asdict(self.counts)
        if self.dataset.ood:
            return {"counts": counts, "ood": self.matched}
        del counts["ood"]
        return {"counts": counts}

    def _too_few(self, count: int, of_window: int) -> InputError:
        """Describe why hardly any candidate is kept and which field of the config to change."""
        counts, dataset = self.counts, self.dataset
        outcomes = (
            f"{of_window or 'none'} of the last {WINDOW * BATCH} candidates of template {self.template} "
            f"could be kept for {self.split} ({counts.kept} of {count} programs so far; {counts.unfit} "
            f"unfit, {counts.too_long} longer than dataset.max_length {dataset.max_length}, "
            f"{counts.other_split} in another split, {counts.rejected} not true, {counts.ood} OOD)"
        )
        if self.split == OOD:
            named = [f"dataset.ood.{name}" for name, rule in self.rules.items() if rule.templates]
            fields = " and ".join(named)
            return InputError(f"{fields}: too few matches: {outcomes}; widen the rule or drop the template")
        if counts.ood:
            name = max(self.matched, key=lambda name: self.matched[name])
            return InputError(
                f"dataset.ood.{name}: the rule excludes {self.matched[name]} true programs, too few are "
                f"left: {outcomes}; narrow the rule"
            )
        return InputError(
            f"dataset.templates.{self.template}: {outcomes}; widen dataset.values, dataset.max_length, "
            "dataset.eval_fraction or the template's own fields"
        )


def sample(dataset: Dataset, seed: int, template: str, split: str, shard: int, count: int) -> Samples:
    """Sample ``count`` true programs, the same on every machine; see :class:`Sampler`."""
    return Sampler(dataset, seed, template, split, shard).sample(count)


def check_names(dataset: Dataset, template: str, split: str) -> None:
    if template not in TEMPLATES:
        raise InputError(f"no template {template!r}; {suggest(template, TEMPLATES)}")
    if split not in dataset.splits:
        raise InputError(f"no split {split!r}; {suggest(split, dataset.splits)}")
