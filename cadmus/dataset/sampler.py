"""From candidates to true programs of one split: execute, filter, remove duplicates, count."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cadmus.common.progress import progress
from cadmus.common.seeds import seed_of
from cadmus.config import OOD, Dataset
from cadmus.dataset.ood import matches
from cadmus.dataset.seen import Seen
from cadmus.dataset.splits import hash_split, hashes, split_of_hashes
from cadmus.errors import InputError, suggest
from cadmus.programs import Programs, stack
from cadmus.templates import TEMPLATES, Candidates, Draw
from cadmus.vm import compiled

BATCH = 1 << 16
"""Candidates drawn at a time; part of what a seed means, as a change of it changes every shard."""
NEW_SHARE = 1 / 8
"""Share of new programs among the good ones of a batch below which duplicates are no longer removed."""
WINDOW = 10
"""Batches after which sampling looks back whether it is worth going on."""
LEAST_ACCEPTANCE = 1e-5
"""Share of the candidates of a window to keep below which sampling gives up."""


@dataclass
class Counts:
    """What became of the candidates of a shard, in the order of the checks."""

    sampled: int = 0
    """Candidates asked for."""
    unfit: int = 0
    """Given up by the template before they were complete (an answer that is NAN or too large, say)."""
    too_long: int = 0
    """Longer than dataset.max_length."""
    rejected: int = 0
    """Not true when executed."""
    other_split: int = 0
    """True, but of another split."""
    ood: int = 0
    """Excluded by a held-out rule."""
    duplicates: int = 0
    """Removed, being in the shard or an earlier one already."""
    duplicates_kept: int = 0
    """Kept although there already: the space of the template is nearly used up."""
    surplus: int = 0
    """Good, but more than were wanted."""
    kept: int = 0
    """In the shard."""


@dataclass
class Sample:
    """True programs of one template and split.

    Attributes:
        programs: n distinct true programs (but see ``Counts.duplicates_kept``).
        prompt_length: uint8, shape (n,).
        x, y: int16, shape (n,), or None.
        counts: what became of the candidates.
        matched: for each held-out rule for the template, the candidates that it matched, of those that are
            true and of the split by their hash.
    """

    programs: Programs
    prompt_length: np.ndarray
    x: np.ndarray | None
    y: np.ndarray | None
    counts: Counts = field(default_factory=Counts)
    matched: dict[str, int] = field(default_factory=dict)


def sample(
    dataset: Dataset,
    seed: int,
    template: str,
    split: str,
    shard: int,
    count: int,
    earlier: Sequence[np.ndarray] = (),
) -> Sample:
    """``count`` true programs; the same arguments give the same programs on every machine.

    There are fewer only in the split ood, where no rule names the template and hardly any matches more.

    Args:
        dataset: what is sampled.
        seed: of the run.
        template, split, shard: what is sampled for; each has random numbers of its own.
        count: programs wanted.
        earlier: the hashes (uint64) of programs that are duplicates too, those of the shards before.

    Raises:
        InputError: no such template or split, or hardly anything that the template gives is kept.
    """
    check_template(template)
    if split not in dataset.splits:
        raise InputError(f"no split {split!r}; {suggest(split, dataset.splits)}")
    draw = Draw(np.random.default_rng(seed_of(seed, template, split, shard)), dataset)
    counts = Counts()
    matched = dict.fromkeys(dataset.rules_for(template), 0)
    batches: list[Candidates] = []
    seen = Seen(count + BATCH + sum(map(len, earlier)))
    for hashed in earlier:
        seen.add(hashed)
    kept_before = 0
    with progress(f"sample {template}", total=count, unit="program") as bar:
        while counts.kept < count:
            candidates = TEMPLATES[template](draw, BATCH)
            kept = _filter(candidates, template, split, dataset, seen, counts, matched)
            counts.sampled += BATCH
            surplus = max(0, counts.kept - count)
            counts.surplus += surplus
            counts.kept -= surplus
            bar.update(counts.kept - bar.n)
            batches.append(kept.take(np.arange(len(kept.programs) - surplus)))
            if counts.kept < count and counts.sampled % (WINDOW * BATCH) == 0:
                of_window = counts.kept - kept_before
                kept_before = counts.kept
                if of_window < LEAST_ACCEPTANCE * WINDOW * BATCH:
                    rules = dataset.rules_for(template).values()
                    if split == OOD and not any(rule.templates for rule in rules):
                        break
                    raise _hopeless(dataset, template, split, count, counts, matched, of_window)
    return _assemble(batches, counts, matched)


def check_template(template: str) -> None:
    """Raises:
    InputError: there is no template of this name.
    """
    if template not in TEMPLATES:
        raise InputError(f"no template {template!r}; {suggest(template, TEMPLATES)}")


def _hopeless(
    dataset: Dataset,
    template: str,
    split: str,
    count: int,
    counts: Counts,
    matched: dict[str, int],
    of_window: int,
) -> InputError:
    """What to say when hardly anything can be kept, and whose doing it is."""
    seen = (
        f"{of_window or 'none'} of the last {WINDOW * BATCH} candidates of template {template} could be kept "
        f"for {split} ({counts.kept} of {count} programs so far; {counts.unfit} unfit, {counts.too_long} "
        f"longer than dataset.max_length {dataset.max_length}, {counts.rejected} not true, "
        f"{counts.other_split} of another split, {counts.ood} excluded by rules)"
    )
    if split == OOD:
        named = [name for name, rule in dataset.rules_for(template).items() if rule.templates]
        place = " and ".join(f"dataset.ood.{name}" for name in named)
        return InputError(f"{place}: too little matches: {seen}; widen the rule or leave the template out")
    if counts.ood:
        name = max(matched, key=lambda name: matched[name])
        return InputError(
            f"dataset.ood.{name}: the rule excludes {matched[name]} true programs and too little is "
            f"left: {seen}; narrow the rule"
        )
    return InputError(
        f"dataset.templates.{template}: {seen}; widen dataset.values, dataset.max_length, "
        "dataset.eval_fraction or the template's own fields"
    )


def _filter(
    candidates: Candidates,
    template: str,
    split: str,
    dataset: Dataset,
    seen: Seen,
    counts: Counts,
    matched: dict[str, int],
) -> Candidates:
    """The candidates to keep, counting the fate of all; their hashes are added to ``seen``."""
    counts.unfit += BATCH - len(candidates.programs)
    short = candidates.programs.lengths <= dataset.max_length
    if not short.all():
        counts.too_long += int(np.sum(~short))
        candidates = candidates.take(np.flatnonzero(short))

    true = compiled.verdicts(candidates.programs)
    hashed = hashes(candidates.programs)
    ours = split_of_hashes(hashed, dataset.eval_fraction) == hash_split(split)
    counts.rejected += int(np.sum(~true))
    counts.other_split += int(np.sum(true & ~ours))
    rows = np.flatnonzero(true & ours)

    if matched:
        good = candidates.take(rows)
        by_rule = matches(dataset.rules_for(template).values(), good.programs, good.x, good.y)
        for name, hits in zip(matched, by_rule, strict=True):
            matched[name] += int(hits.sum())
        wanted = by_rule.any(axis=0) == (split == OOD)
        if split == OOD:
            counts.other_split += int(np.sum(~wanted))
        else:
            counts.ood += int(np.sum(~wanted))
        rows = rows[wanted]

    first = seen.add(hashed[rows])
    new = int(np.sum(first))
    if new < NEW_SHARE * len(rows):
        # The space is nearly used up: what is left of it would take ever longer to find.
        counts.duplicates_kept += len(rows) - new
    else:
        counts.duplicates += len(rows) - new
        rows = rows[first]
    counts.kept += len(rows)
    return candidates.take(rows)


def _assemble(batches: list[Candidates], counts: Counts, matched: dict[str, int]) -> Sample:
    if not batches:
        return Sample(Programs.from_strings([]), np.empty(0, np.uint8), None, None, counts, matched)
    has_values = batches[0].x is not None
    return Sample(
        stack([batch.programs for batch in batches]),
        np.concatenate([batch.prompt_length for batch in batches]).astype(np.uint8),
        np.concatenate([batch.x for batch in batches]).astype(np.int16) if has_values else None,
        np.concatenate([batch.y for batch in batches]).astype(np.int16) if has_values else None,
        counts,
        matched,
    )
