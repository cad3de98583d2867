"""The batch of a step: which programs it has, packed into rows of one length.

The order of the programs is in :mod:`cadmus.train.order`.

Rows hold several programs each, longest first into the fullest row with room, which leaves next to no
padding. Attention stays within a program.

Labels take longer to prepare than a GPU takes for a step of a small model. So on a GPU, workers of
:class:`Prefetcher` prepare the next batches, while this process only launches kernels.
"""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.model.flops import causal_pairs, full_pairs
from cadmus.programs import TOKEN_OF_BYTE, Programs, Samples, stack
from cadmus.tools import generator
from cadmus.train.interchange_training import Exchange, choose
from cadmus.train.label_only import label_only
from cadmus.train.labels import NO_TARGET, state_labels
from cadmus.train.masking import Noise, draw_noise, noised
from cadmus.train.order import Curriculum, Rates
from cadmus.train.ranks import ALONE, Place


@dataclass(frozen=True)
class PackedBatch:
    """Programs packed into R rows of L tokens."""

    tokens: Tensor
    positions: Tensor
    segments: Tensor
    """int64, shape (R, L), as :meth:`cadmus.model.gpt.GPT.visible` takes them; padding has segment -1."""
    targets: Tensor
    """int64, shape (R, L), the next token, or ``NO_TARGET`` in label-only programs and in the padding; after
    the last instruction of a program it is the end."""
    completion_mask: Tensor
    """bool, shape (R, L), True where the target belongs to a completion."""
    token_count: int
    """Tokens that are not padding."""
    labels: Tensor | None = None
    """int64, shape (R, L, columns), for state supervision, or ``NO_TARGET``."""
    numbers: Tensor | None = None
    """float32, shape (R, L, columns), its labels that are numbers, or NAN."""
    exchange: Exchange | None = None
    """States to exchange, of all rows in a row."""
    weights: Tensor | None = None
    """float32, shape (R, L), for masked diffusion, of each target."""

    def to(self, device: torch.device) -> "PackedBatch":
        """Return the batch on a device; a GPU copies it while it computes."""
        if device.type == "cpu":
            return self

        def moved(value: Tensor) -> Tensor:
            return value.pin_memory().to(device, non_blocking=True)

        fields: dict[str, Any] = {
            name: moved(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        if self.exchange is not None:
            fields["exchange"] = Exchange(*map(moved, self.exchange))
        return replace(self, **fields)


class Supervision(NamedTuple):
    """Labels and exchanges of programs, besides the next token; every part is optional.

    Labels have a row for each instruction, of all programs in a row.
    """

    labels: np.ndarray | None = None
    """int64, shape (instructions, columns), classes (:mod:`cadmus.train.labels`)."""
    numbers: np.ndarray | None = None
    """float32, shape (instructions, columns)."""
    learned: np.ndarray | None = None
    """bool, shape (n,), False for label-only programs, which have no targets."""
    exchange: Exchange | None = None
    """In instructions."""
    noise: Noise | None = None
    """Of masked diffusion, instead of the next token."""


NEXT_TOKEN_ALONE = Supervision()
CPU = torch.device("cpu")


class Batch(NamedTuple):
    """The batch of a step: counts cover all ranks, the micro-batches are those of this rank."""

    micro_batches: list[PackedBatch]
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
    """Prepares the batches of one rank, on the CPU; the order depends on ``seed`` and ``rates``."""

    def __init__(
        self,
        training_set: Samples,
        seed: int,
        run: config.Config,
        place: Place = ALONE,
        rates: Rates | None = None,
    ) -> None:
        self._programs, self._prompt_lengths = training_set.programs, training_set.prompt_length
        self._seed, self._train, self._dataset = seed, run.train, run.dataset
        self._curriculum = Curriculum(training_set, seed, run, rates or Rates())
        self._masks = run.model.attention == "full"
        self._row_length = run.row_length
        self._label_only = run.train.label_only.count(run.train.batch_size)
        programs = run.train.batch_size // place.ranks
        # Micro-batches are dealt over all ranks at once, so that they have almost the same number of tokens.
        per_rank = programs // (run.train.micro_batch_size or programs)
        self._micro_batches = place.ranks * per_rank
        self._mine = slice(place.rank * per_rank, (place.rank + 1) * per_rank)

    def load(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0."""
        train, label_only_count = self._train, self._label_only
        batch = self._curriculum.draw(step, train.batch_size - label_only_count)
        programs = self._programs.take(batch)
        # uint8 on the disk; differences of them would wrap around.
        prompt_lengths = self._prompt_lengths[batch].astype(np.int64)
        # The first instruction is not a target, the end is.
        targets, completion_targets = programs.lengths, programs.lengths - np.maximum(prompt_lengths - 1, 0)
        noise = None
        if self._masks:
            rng = generator(self._seed, "noise", step)
            noise = draw_noise(rng, programs.lengths, prompt_lengths, train.prompt_weight)
            prompt_lengths = noise.prompts
            # The tokens of the canvas, and its length.
            targets = programs.lengths - prompt_lengths + 1
            completion_targets = targets[noise.asked]
        # Streams of the step alone: a resumed training draws the same ones.
        if label_only_count:
            rng = generator(self._seed, "label only", step)
            drawn = label_only(rng, label_only_count, train.label_only, self._dataset)
            programs = stack([programs, drawn])
            prompt_lengths = np.append(prompt_lengths, np.zeros(label_only_count, np.int64))
        lengths = programs.lengths
        dealt = deal(np.arange(train.batch_size), lengths, self._micro_batches)
        mine = list(enumerate(dealt))[self._mine]
        pairs = full_pairs(prompt_lengths, lengths) if self._masks else causal_pairs(lengths)
        return Batch(
            [
                self._pack(
                    programs.take(rows),
                    prompt_lengths[rows],
                    Supervision(
                        learned=rows < len(batch),
                        noise=noise and noise.take(rows),
                    ),
                    (step, number),
                )
                for number, rows in mine
            ],
            tokens=int(lengths.sum()),
            pairs=int(pairs.sum()),
            targets=int(targets.sum()),
            completion_targets=int(completion_targets.sum()),
        )

    def _pack(
        self, programs: Programs, prompt_lengths: np.ndarray, given: Supervision, place: tuple[int, int]
    ) -> PackedBatch:
        """Pack a micro-batch, supervised as ``given`` and by what is computed from the programs."""
        labels_of_config, interchange = self._train.state_labels, self._train.interchange_training
        labels = numbers = exchange = None
        if self._train.state_weight:
            labels, numbers = state_labels(programs, labels_of_config, self._dataset)
        step, number = place
        exchanges_now = interchange.start <= step / self._train.steps < interchange.stop
        if interchange.fraction and exchanges_now:
            assert numbers is not None
            assert given.learned is not None
            rng = generator(self._seed, "interchange", step, number)
            # "difference" exists where "second" does.
            name = "second" if interchange.variable == "comparison" else "magnitude"
            known = ~np.isnan(numbers[:, list(labels_of_config.numbers()).index(name)])
            exchange = choose(rng, programs, prompt_lengths, given.learned, known, interchange)
        supervision = given._replace(labels=labels, numbers=numbers, exchange=exchange)
        return pack_batch(programs, prompt_lengths, self._row_length, supervision)


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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def deal(batch: np.ndarray, lengths: np.ndarray, parts: int) -> np.ndarray:
    """Deal programs to parts with almost as many tokens each, as ranks wait for each other in every step.

    Returns the elements of ``batch``, shape (parts, programs of a part): by length, back and forth.
    """
    dealt = batch[np.argsort(lengths, kind="stable")].reshape(-1, parts)
    # Back: otherwise the last part would get the longest of each row.
    dealt[1::2] = dealt[1::2, ::-1]
    return dealt.T


def pack_batch(
    programs: Programs,
    prompt_lengths: np.ndarray,
    row_length: int,
    supervision: Supervision = NEXT_TOKEN_ALONE,
) -> PackedBatch:
    """Pack n programs, the first at the start of their data, into rows.

    ``prompt_lengths`` are integers of shape (n,).
    """
    labels, numbers, learned, exchange, noise = supervision
    lengths = programs.lengths
    rows, columns, row_count = pack(lengths, row_length)
    # Of each token: the program, its position in it, and its place in the rows.
    program = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(program)) - np.repeat(programs.offsets[:-1], lengths)
    place = (rows * row_length + columns)[program] + position
    token = TOKEN_OF_BYTE[programs.data].astype(np.int64)
    target, weights, segment = np.append(token[1:], isa.END_ID), None, program
    target[programs.offsets[1:] - 1] = isa.END_ID
    completing = position + 1 >= np.asarray(prompt_lengths)[program]
    if noise is not None:
        token, target, weights = noised(token, programs.offsets, noise)
        # A prompt attends to itself alone: see GPT.visible.
        segment = 2 * program + (position >= noise.prompts[program])
        completing &= noise.asked[program]

    def arrange(padding: float, values: np.ndarray) -> Tensor:
        shape = values.shape[1:]
        arranged = np.full((row_count * row_length, *shape), padding, values.dtype)
        arranged[place] = values
        return torch.from_numpy(arranged.reshape(row_count, row_length, *shape))

    if learned is not None:
        target[~learned[program]] = NO_TARGET
    if exchange is not None:
        places = torch.from_numpy(place)
        exchange = Exchange(places[exchange.states], places[exchange.donors], exchange.shift)
    return PackedBatch(
        tokens=arrange(isa.END_ID, token),
        positions=arrange(0, position),
        segments=arrange(-1, segment),
        targets=arrange(NO_TARGET, target),
        completion_mask=arrange(False, completing),
        token_count=len(token),
        labels=None if labels is None else arrange(NO_TARGET, labels),
        numbers=None if numbers is None else arrange(np.nan, numbers),
        exchange=exchange,
        weights=None if weights is None else arrange(0, weights),
    )


def pack(lengths: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Pack by best-fit decreasing: the longest piece first, each into the fullest row that has room for it.

    Returns the row and the first column of each piece, int64 of shape (n,), and the number of rows.
    """
    if lengths.max(initial=0) > row_length:
        raise ValueError(f"a program needs {lengths.max()} tokens, a row has {row_length}")
    return _best_fit(np.argsort(-lengths, kind="stable"), lengths, row_length)


@numba.njit(cache=True, nogil=True)
def _best_fit(
    order: np.ndarray, lengths: np.ndarray, row_length: int
) -> tuple[np.ndarray, np.ndarray, int]:  # pragma: no cover - compiled
    rows = np.empty(len(lengths), np.int64)
    columns = np.empty(len(lengths), np.int64)
    room = np.empty(len(lengths), np.int64)
    count = 0
    for piece in order:
        best = -1
        for row in range(count):
            if room[row] >= lengths[piece] and (best < 0 or room[row] < room[best]):
                best = row
                if room[row] == lengths[piece]:
                    break
        if best < 0:
            best = count
            room[best] = row_length
            count += 1
        rows[piece] = best
        columns[piece] = row_length - room[best]
        room[best] -= lengths[piece]
    return rows, columns, count
