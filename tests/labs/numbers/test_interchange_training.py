"""Interchange intervention training."""

import numpy as np
import pytest
import torch

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset.splits import TRAIN, split_of
from cadmus.labs.numbers.interchange_training import EXCHANGE, Exchange, choose, exchanged
from cadmus.labs.numbers.label_only import label_only
from cadmus.labs.numbers.settings import InterchangeTraining, LabelOnly
from cadmus.programs import Programs, Samples, join
from cadmus.templates.draw import comparator
from cadmus.train import NO_TARGET
from cadmus.train.heads import normalized
from cadmus.train.objectives import make_loader
from cadmus.train.objectives.state_supervision import SCALE
from cadmus.vm.compiled import execute
from tests.train.test_batches import small

TEXTS = ["34+7=", "99*81-<", "u1b2b$3=", "\\2*;4f8=", "6f8=\\2+;", "12+3*45-6+"]
LEARNED = np.array([True] * 5 + [False])


def chosen():
    """Return the states and donors that may be chosen, as the text up to there, and the shifts."""
    programs = Programs.from_strings(TEXTS)
    known = np.ones(len(programs.data), bool)
    rng = np.random.default_rng(0)
    states, donors, shift = set(), set(), []
    for _ in range(50):
        exchange = choose(rng, programs, LEARNED, known, InterchangeTraining(fraction=0.9))
        states |= set(exchange.states.tolist())
        donors |= set(exchange.donors.tolist())
        shift += exchange.shift.tolist()

    def texts(places):
        row = np.searchsorted(programs.offsets, list(places), "right") - 1
        return {TEXTS[r][: place + 1 - programs.offsets[r]] for r, place in zip(row, places, strict=True)}

    return texts(states), texts(donors), np.array(shift)


def test_states_before_a_last_comparator_are_exchanged():
    states, donors, shift = chosen()
    assert states == {"34+7", "99*81-", "u1b2b$3", "\\2*;4f8"}
    # Numbers that are never compared are exchanged into comparisons.
    assert donors == {*states, "12+3*45-6+"}
    assert (shift == 0).mean() == pytest.approx(0.5, abs=0.2)
    assert 40 < shift.max() <= 60
    assert -60 <= shift.min() < -40


def test_what_is_not_known_is_not_exchanged():
    programs = Programs.from_strings(TEXTS)
    unknown = np.zeros(len(programs.data), bool)
    rng, settings = np.random.default_rng(0), InterchangeTraining(fraction=1)
    exchange = choose(rng, programs, LEARNED, unknown, settings)
    assert [len(each) for each in exchange] == [0, 0, 0]
    known = unknown.copy()
    known[:4] = True
    for _ in range(5):
        states, donors, _ = choose(rng, programs, LEARNED, known, settings)
        assert states.tolist() == donors.tolist() == [3], "the first program exchanges with itself"


def test_all_but_what_the_labels_read_is_exchanged():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16, requires_grad=True)
    weight = torch.randn(2, 16)
    states, donors, shift = torch.tensor([1, 7]), torch.tensor([3, 3]), torch.tensor([0.0, 40.0])
    new = exchanged(x, weight, Exchange(states, donors, shift))
    before, after = x.flatten(0, 1), new.flatten(0, 1)
    others = [row for row in range(10) if row not in (1, 7)]
    assert torch.equal(after[others], before[others])
    own, other, found = (normalized(each) for each in (before[states], before[donors], after[states]))
    # Without a shift the norm stays, and so does what is read.
    torch.testing.assert_close(found[0] @ weight.T, own[0] @ weight.T)
    torch.testing.assert_close(after[1].norm(), before[1].norm())
    basis = torch.linalg.qr(weight.T)[0]
    rest, rest_of_donor = (each - each @ basis @ basis.T for each in (found[0], other[0]))
    assert torch.cosine_similarity(rest, rest_of_donor, dim=0).item() == pytest.approx(1)
    # A shift moves what the first direction reads; the norm of this state changes.
    scale = before[7].square().mean().sqrt()
    moved = (after[7] / scale - own[1]) @ weight.T
    torch.testing.assert_close(moved, torch.tensor([40 / SCALE, 0.0]), atol=1e-4, rtol=0)
    # Donors do not learn from it.
    (gradient,) = torch.autograd.grad(after[states].square().sum() + found.sum(), x)
    assert not gradient.flatten(0, 1)[3].any()
    # Nor does the rest of a state, but for the norm of the whole.
    itself = exchanged(x, weight, Exchange(states, states, torch.zeros(2)))
    rest_of_own = (own[0] - own[0] @ basis @ basis.T).detach()
    (gradient,) = torch.autograd.grad(itself.flatten(0, 1)[1] @ rest_of_own, x)
    expected = (rest_of_own @ rest_of_own) * own[0] / 16
    torch.testing.assert_close(gradient.flatten(0, 1)[1], expected.detach())


def test_label_only_programs_leave_two_numbers_and_are_no_prompts_of_other_splits():
    programs = label_only(np.random.default_rng(0), 500, LabelOnly(), Dataset())
    assert len(programs) == 500
    texts = programs.to_strings()
    x = execute(Programs.from_strings(text[:5] for text in texts)).values[:, 0].astype(int)
    y = execute(Programs.from_strings(text[5:] for text in texts)).values[:, 0].astype(int)
    assert max(min(x), min(y)) < -50
    assert min(max(x), max(y)) > 50
    assert (split_of(join(programs, comparator(x, y)), Dataset().eval_fraction) == TRAIN).all()


def test_some_label_only_pairs_are_close():
    settings = LabelOnly(close=0.5)
    programs = label_only(np.random.default_rng(0), 2_000, settings, Dataset())
    x, y = (
        execute(Programs.from_strings(text[part] for text in programs.to_strings())).values[:, 0].astype(int)
        for part in (slice(5), slice(5, None))
    )
    close = abs(x - y) <= 3
    # Half, but for those whose second number has no expression or another split, and a few by chance.
    assert 0.45 < close.mean() < 0.55
    assert np.bincount((x - y)[close] + 3).min() > 0.1 * close.sum()
    assert 0.5 < (abs(x[close]) > 20).mean() < 0.8


def test_label_only_programs_have_labels_and_no_targets():
    strings = ["34+7=", "u", "12+0>", "55="]
    training_set = Samples(Programs.from_strings(strings), np.full(4, 2, np.uint8))
    labels = {"state_weight": 1.0, "state_labels": {"top": 1, "top_number": 1}}
    run = small(batch_size=8, label_only={"fraction": 0.5}, **labels)
    batch = make_loader(run, training_set, 0).load(0)
    (packed,) = batch.micro_batches
    assert batch.targets == sum(map(len, strings)) == int((packed.targets != NO_TARGET).sum())
    assert batch.tokens == batch.targets + 4 * 10 == int((packed.columns["labels"] != NO_TARGET).sum())
    only = [
        segment for segment in range(8) if (packed.targets[packed.segments == segment] == NO_TARGET).all()
    ]
    assert len(only) == 4
    # Each expression of five instructions leaves a number.
    numbers = packed.columns["numbers"]
    assert all(numbers[packed.segments == segment][[4, 9]].isfinite().all() for segment in only)


def test_a_batch_has_the_states_that_are_exchanged():
    training_set = Samples(Programs.from_strings(["34+7=", "12+0="]), np.full(2, 4, np.uint8))
    labels = {"state_weight": 1.0, "state_labels": {"second": 1, "difference": 1}}
    run = small(batch_size=2, **labels, interchange_training={"fraction": 1.0})
    (packed,) = make_loader(run, training_set, 0).load(0).micro_batches
    exchange = packed.extras[EXCHANGE]
    assert len(exchange.states) == 2
    # Tokens whose next one is the comparator.
    assert (packed.targets.flatten()[exchange.states] == isa.TOKEN_ID["="]).all()
    assert set(exchange.donors.tolist()) <= set(exchange.states.tolist())
