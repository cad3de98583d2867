"""Batches: counts over all ranks, packing into rows."""

import os
import signal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.programs import Programs, Samples
from cadmus.train import NO_TARGET
from cadmus.train.loader import Prefetcher, deal
from cadmus.train.objectives import make_loader
from cadmus.train.order import Order
from cadmus.train.packing import Drawn, Supervision, pack, pack_batch
from cadmus.train.ranks import Place
from tests.model.models import random_programs
from tests.train.runs import run_config


def small(**train) -> config.Config:
    return config.parse_config(run_config(**{"steps": 1, "batch_size": 4, **train}), "test")


def test_a_step_with_rewards_trains_on_the_first_of_its_programs():
    training_set = Samples(random_programs(40, 4, 30, seed=2), np.full(40, 2, np.uint8))
    values = {"steps": 4, "batch_size": 16, "micro_batch_size": 8}
    fewer = {"reinforcement": {"fraction": 0.5, "batch_size": 4, "questions": ["random"]}}
    every, some = (
        make_loader(small(**values, **more), training_set, 3, Place(0, 1, torch.device("cpu")))
        for more in ({}, fewer)
    )
    for step, programs in ((1, 16), (2, 4), (3, 4)):
        batch = some.load(step)
        assert batch.programs == programs
        # As many micro-batches as in any other step.
        assert len(batch.micro_batches) == 2
        drawn = Order(training_set, 3).draw(step, 16)
        lengths = training_set.programs.lengths[drawn[:programs]]
        assert batch.tokens == lengths.sum()
    assert small(**values, **fewer).train.programs == 2 * 16 + 2 * 4
    assert every.load(3).programs == 16
    for wrong in ({"batch_size": 5}, {"batch_size": 32}):
        with pytest.raises(InputError, match=r"batch_size"):
            small(**values, reinforcement={"fraction": 0.5, **wrong})


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_prepare_the_same_batches(workers):
    """Over the end of an epoch, from a step in the middle."""
    programs = random_programs(40, 4, 30, seed=2)
    training_set = Samples(programs, programs.lengths)
    loader = make_loader(small(batch_size=16, state_weight=1.0), training_set, 3)
    prefetcher = Prefetcher(loader.load, range(2, 9), workers)
    for step in range(2, 9):
        (packed,), (wanted,) = prefetcher.take().micro_batches, loader.load(step).micro_batches
        prefetcher.prepare()
        for name in ("tokens", "positions", "segments", "targets", "completion_mask"):
            assert torch.equal(getattr(packed, name), getattr(wanted, name)), name
        assert torch.equal(packed.columns["labels"], wanted.columns["labels"])
    prefetcher.close()


def test_an_error_of_a_worker_reaches_the_training():
    def fail(step):
        raise InputError("no programs")

    prefetcher = Prefetcher(fail, range(4), 2)
    with pytest.raises(InputError, match=r"^no programs$"):
        prefetcher.take()
    prefetcher.close()


def test_a_worker_that_is_killed_is_one_line():
    def load(step):
        os.kill(os.getpid(), signal.SIGTERM)  # which the training, not a worker, heeds
        os.kill(os.getpid(), signal.SIGKILL)

    prefetcher = Prefetcher(load, range(4), 1)
    with pytest.raises(InputError, match=r"^DataLoader worker .* the training needs more memory$"):
        prefetcher.take()
    prefetcher.close()


def test_counts_cover_all_ranks():
    strings = ["34+7=", "u", "12+0>", "55="]
    training_set = Samples(Programs.from_strings(strings), np.full(4, 2, np.uint8))
    batches = [
        make_loader(small(), training_set, 0, Place(rank, 2, torch.device("cpu"))).load(0) for rank in (0, 1)
    ]
    tokens = [len(string) for string in strings]
    for batch in batches:
        assert batch.tokens == sum(tokens)
        # Each token attends to itself and to those before it in its program.
        assert batch.pairs == sum(count * (count + 1) // 2 for count in tokens)
        assert batch.targets == sum(map(len, strings))
    assert sum(int(batch.micro_batches[0].segments.max()) + 1 for batch in batches) == 4
    assert sum(batch.micro_batches[0].token_count for batch in batches) == sum(tokens)


@given(st.lists(st.integers(1, 20), max_size=60), st.integers(20, 40))
def test_packed_programs_do_not_overlap(lengths, row_length):
    lengths = np.array(lengths, np.int64)
    rows, columns, count = pack(lengths, row_length)
    taken = np.zeros((count, row_length), int)
    for row, column, length in zip(rows, columns, lengths, strict=True):
        assert column + length <= row_length
        taken[row, column : column + length] += 1
    assert taken.max(initial=0) <= 1
    assert (taken.sum(1) > 0).all()
    # No two rows could have been one.
    used = np.sort(taken.sum(1))
    assert count < 2 or used[0] + used[1] > row_length


def test_packing_rejects_a_program_longer_than_a_row():
    with pytest.raises(ValueError, match="needs 21 tokens"):
        pack(np.array([3, 21]), 20)


def test_packing_fills_the_rows():
    assert pack(np.array([7, 6, 2]), 10)[0].tolist() == [0, 1, 0], "into the fullest row with room"
    programs = random_programs(256, 6, 30)
    for row_length, fill in ((64, 0.97), (128, 0.95)):
        packed = pack_batch(Drawn.of(programs, np.ones(256)), row_length)
        assert packed.token_count > fill * packed.tokens.numel()


@given(st.lists(st.text(sorted(set(isa.TOKEN_ID) - {"."}), min_size=1, max_size=15), min_size=1, max_size=12))
def test_a_packed_batch_holds_each_program_once(strings):
    prompt_lengths = np.array([len(string) // 2 for string in strings])
    packed = pack_batch(Drawn.of(Programs.from_strings(strings), prompt_lengths), 16)
    found = []
    for row in range(len(packed.tokens)):
        for segment in packed.segments[row].unique():
            inside = packed.segments[row] == segment
            tokens, targets = packed.tokens[row][inside], packed.targets[row][inside]
            completing = packed.completion_mask[row][inside].tolist()
            if segment < 0:
                assert (targets == NO_TARGET).all()
                assert not any(completing)
                continue
            prompt = prompt_lengths[segment]
            assert completing == [place + 1 >= prompt for place in range(len(tokens))]
            assert packed.positions[row][inside].tolist() == list(range(len(tokens)))
            assert targets.tolist() == [*tokens[1:].tolist(), isa.END_ID]
            found.append("".join(isa.INSTRUCTIONS[token].symbol for token in tokens))
    assert sorted(found) == sorted(strings)
    assert packed.token_count == (packed.segments >= 0).sum()


def test_labels_are_packed_with_their_instructions():
    programs = random_programs(50, 1, 20)

    class Numbered(Supervision):
        def annotate(self, tokens):
            numbers = np.arange(len(tokens.token))
            tokens.columns["labels"] = NO_TARGET, np.stack([numbers, numbers + 7], 1)

    drawn = Drawn.of(programs, np.ones(50))
    packed = pack_batch(drawn, 32, [Numbered()])
    labels = packed.columns["labels"]
    starts = programs.offsets[:-1]
    for row, column in np.argwhere(packed.segments.numpy() >= 0):
        segment, position = packed.segments[row, column], packed.positions[row, column]
        at = starts[segment] + position
        assert labels[row, column].tolist() == [at, at + 7]
    assert (labels[packed.segments < 0] == NO_TARGET).all()
    assert int((labels != NO_TARGET).sum()) == 2 * (packed.targets != NO_TARGET).sum()
    assert pack_batch(drawn, 32).columns == {}


def test_programs_are_dealt_by_length_to_parts_with_as_many_tokens():
    lengths = np.random.default_rng(0).integers(3, 64, 128)
    batch = np.arange(1000, 1128)
    parts = deal(batch, lengths, 4)
    assert parts.shape == (4, 32)
    assert sorted(parts.ravel()) == batch.tolist()
    tokens = lengths[parts - 1000].sum(1)
    assert np.ptp(tokens) <= 64 / 2
    assert np.array_equal(deal(batch, lengths, 1)[0], batch[np.argsort(lengths, kind="stable")])
