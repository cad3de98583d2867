"""The loader: the batch of each step, prepared before it is needed.

:mod:`cadmus.train.order` chooses the programs, :mod:`cadmus.train.packing` packs them into rows.

Labels take longer to prepare than a GPU takes for a step of a small model. So on a GPU, workers of
:class:`Prefetcher` prepare the next batches, while this process only launches kernels.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from cadmus import config
from cadmus.errors import InputError
from cadmus.model.flops import attended_pairs
from cadmus.programs import Samples
from cadmus.train.order import Order
from cadmus.train.packing import Drawn, PackedBatch, Supervision, pack, pack_batch
from cadmus.train.ranks import ALONE, Place

CPU = torch.device("cpu")
TRIALS = 64
"""Batches whose rows are counted. About one in 64 of the others needs more rows than all of these."""


class Batch(NamedTuple):
    """The batch of a step: counts cover all ranks, the micro-batches are those of this rank."""

    micro_batches: list[PackedBatch]
    programs: int
    tokens: int
    """Those that are computed: the end of a program is predicted, but predicts nothing."""
    pairs: int
    """Of a token and one that it attends to, on which the FLOPs of attention depend."""
    targets: int
    """Tokens to predict."""
    completion_targets: int

    @property
    def fill(self) -> float:
        """Fraction of the rank's computed tokens that are not padding."""
        computed = sum(packed.tokens.numel() for packed in self.micro_batches)
        return sum(packed.token_count for packed in self.micro_batches) / computed


class Loader:
    """Prepares the batches of one rank, on the CPU."""

    def __init__(
        self,
        training_set: Samples,
        order: Order,
        run: config.Config,
        place: Place = ALONE,
        supervisions: Sequence[Supervision] = (),
    ) -> None:
        self._programs, self._prompt_lengths = training_set.programs, training_set.prompt_length
        self._order, self._supervisions = order, supervisions
        self._train, self._row_length, self._attention = run.train, run.row_length, run.model.attention
        programs = run.train.batch_size // place.ranks
        # Micro-batches are dealt over all ranks at once, so that they have almost the same number of tokens.
        per_rank = programs // (run.train.micro_batch_size or programs)
        self._micro_batches = place.ranks * per_rank
        self._mine = slice(place.rank * per_rank, (place.rank + 1) * per_rank)
        self._least_rows = 0

    def fix_rows(self) -> int:
        """Give almost all batches one number of rows from now on, and return it; a few need more."""
        drawn = map(self._draw, range(TRIALS))
        self._least_rows = max(pack(each.programs.lengths, self._row_length)[2] for each in drawn)
        return self._least_rows

    def load(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0."""
        drawn, programs = self._draw(step), self._train.programs_of(step)
        lengths = drawn.programs.lengths
        dealt = deal(np.arange(programs), lengths, self._micro_batches)
        mine = [drawn.take(rows, number) for number, rows in list(enumerate(dealt))[self._mine]]
        return Batch(
            [pack_batch(part, self._row_length, self._supervisions, self._least_rows) for part in mine],
            programs=programs,
            tokens=int(lengths.sum()),
            pairs=int(attended_pairs(self._attention, drawn.prompt_lengths, lengths).sum()),
            targets=int(drawn.targets.sum()),
            completion_targets=int(drawn.completion_targets.sum()),
        )

    def _draw(self, step: int) -> Drawn:
        """Return the programs of a step."""
        programs, batch_size = self._train.programs_of(step), self._train.batch_size
        rows = self._order.draw(step, batch_size - self._added(batch_size))
        # A step with fewer trains on the first of those that it would have.
        rows = rows[: programs - self._added(programs)]
        drawn = Drawn.of(self._programs.take(rows), self._prompt_lengths[rows], step)
        for supervision in self._supervisions:
            drawn = supervision.draw(drawn)
        return drawn

    def _added(self, programs: int) -> int:
        """Return how many of the programs of a step its supervision adds."""
        return sum(supervision.added(programs) for supervision in self._supervisions)


class Prefetcher:
    """The batches of consecutive steps on the device of a rank, prepared before they are needed.

    With ``workers``, as many processes prepare them. Threads would take turns with the one that launches
    kernels and slow it down. Without workers, as on a CPU, where they would take time from the step,
    :meth:`prepare` loads the next batch.
    """

    def __init__(
        self, load: Callable[[int], Batch], steps: range, workers: int = 0, device: torch.device = CPU
    ) -> None:
        self._load, self._steps, self._device = load, iter(steps), device
        self._ready: Batch | None = None
        self._loaded: Iterator[Batch | InputError] | None = None
        if workers and steps:
            loader = DataLoader(
                _Steps(load),
                sampler=steps,
                batch_size=None,
                num_workers=workers,
                # They share the training programs with this process.
                multiprocessing_context="fork",
                worker_init_fn=_leave_signals_to_the_training,
            )
            self._loaded = iter(loader)
        self.prepare()

    def prepare(self) -> None:
        """Load the next batch if there is one, unless workers do."""
        step = next(self._steps, None)
        if self._loaded is None and step is not None:
            self._ready = self._load(step)

    def take(self) -> Batch:
        """Return the batch of the next step, copied to the device while that computes."""
        batch = self._ready if self._loaded is None else self._take()
        assert batch is not None
        moved = [packed.to(self._device) for packed in batch.micro_batches]
        return batch._replace(micro_batches=moved)

    def _take(self) -> Batch:
        assert self._loaded is not None
        try:
            batch = next(self._loaded)
        except RuntimeError as error:
            # A worker was killed.
            raise InputError(f"{str(error).splitlines()[0]}; the training needs more memory") from None
        if isinstance(batch, InputError):
            raise batch
        return batch

    def close(self) -> None:
        """End the workers; batches that are not taken are dropped."""
        self._loaded = None


class _Steps(Dataset[Batch | InputError]):
    """The batches of steps as a dataset of PyTorch; an InputError is an element, which keeps its line."""

    def __init__(self, load: Callable[[int], Batch]) -> None:
        self._load = load

    def __getitem__(self, step: int) -> Batch | InputError:
        try:
            return self._load(step)
        except InputError as error:
            return error


def _leave_signals_to_the_training(worker: int) -> None:
    """Ignore the signals that a terminal or a scheduler sends to all processes: the training ends workers."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def deal(batch: np.ndarray, lengths: np.ndarray, parts: int) -> np.ndarray:
    """Deal programs to parts with almost as many tokens each, as ranks wait for each other in every step.

    Returns the elements of ``batch``, shape (parts, programs of a part): by length, back and forth.
    """
    dealt = batch[np.argsort(lengths, kind="stable")].reshape(-1, parts)
    # Back: otherwise the last part would get the longest of each row.
    dealt[1::2] = dealt[1::2, ::-1]
    return dealt.T
