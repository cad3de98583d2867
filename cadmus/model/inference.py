"""A trained model that predicts, completes and shows its hidden states, in batches and in fp32."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from cadmus import isa
from cadmus.config import Dataset
from cadmus.errors import InputError
from cadmus.model.export import load_export, read_metadata
from cadmus.model.gpt import GPT, Cache, last
from cadmus.model.shipped import named_or_default
from cadmus.model.tokens import BYTE_OF_TOKEN, padded_tokens
from cadmus.programs import Programs, offsets_of

PROMPT_TOKENS = 1024
"""Most tokens of prompts that are looked at together, which are of about the same length then."""
ALIKE = 16
"""Programs of up to so many instructions are continued together, longer ones with those of up to twice their
length: a cache is as long as its longest row."""
COMPACT_BELOW = 0.5
"""Share of rows still being continued under which the finished ones are taken out of the batch."""
Batch = Programs | Iterable[str]
"""What a model is asked about."""
Choose = Callable[[torch.Tensor, np.ndarray], np.ndarray]
"""How programs go on: called with logits of what may follow, shape (n, 65), and the indices of the n prompts
that they are of, int64 of shape (n,); returns the token ids that follow, int64 of shape (n,)."""


def greedy(logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
    """The most likely instruction of each row."""
    return logits.argmax(-1).cpu().numpy()


class Cadmus:
    """A model and how many programs it is asked about at a time; answers do not depend on that number.

    Programs are given as a batch or as strings, always without the end ``.``; what is asked about them raises
    InputError where a string is empty, has an end or is no program.

    Attributes:
        model: the network.
        sizes: of it.
        batch_size: most programs that are looked at together.
        max_length: most instructions of a program that it was trained with.
        device: where it is.
    """

    def __init__(self, model: GPT, batch_size: int = 512, max_length: int | None = None) -> None:
        self.model = model
        self.batch_size = batch_size
        self.max_length = max_length or Dataset().max_length
        self.sizes = model.sizes
        self.device = next(model.parameters()).device

    @classmethod
    def load(
        cls,
        directory: Path | str | None = None,
        device: torch.device | str = "cpu",
        batch_size: int = 512,
    ) -> "Cadmus":
        """The model of an export; if None, the one that comes with the checkout.

        Raises:
            InputError: as :func:`cadmus.model.export.load_export`, or the checkout has no model.
        """
        place = named_or_default(None if directory is None else Path(directory))
        trained = read_metadata(place).get("config", {}).get("dataset", {})
        return cls(load_export(place, device), batch_size, trained.get("max_length"))

    @torch.inference_mode()
    def next_logits(self, prompts: Batch) -> np.ndarray:
        """Logits of the instruction after each prompt: float32, shape (n, 65).

        Raises:
            ValueError: a prompt is empty.
        """
        prompts = _batch(prompts)
        logits = np.empty((len(prompts), isa.VOCABULARY_SIZE), np.float32)
        for rows in self._batches_by_length(prompts):
            logits[rows] = self._logits_behind(prompts.take(rows)).cpu().numpy()
        return logits

    @torch.inference_mode()
    def complete(
        self, prompts: Batch, max_length: int | np.ndarray | None = None, choose: Choose = greedy
    ) -> tuple[Programs, np.ndarray]:
        """Continue each prompt until the end ``.``.

        Args:
            prompts: n programs to continue.
            max_length: most instructions of prompt and completion together, for all or one for each: int64
                of shape (n,); if None, as many as the model was trained with.
            choose: chooses the next instruction.  A program that has ended may be asked about again; the
                answer is dropped.

        Returns:
            The n completions without the end, and a bool array of shape (n,): whether the end came.  A
            completion without end was cut off at ``max_length``.

        Raises:
            ValueError: a prompt is empty or longer than ``max_length``.
        """
        prompts = _batch(prompts)
        max_length = self.max_length if max_length is None else max_length
        limits = np.broadcast_to(max_length, len(prompts))
        if (prompts.lengths > limits).any():
            raise ValueError(f"a prompt is longer than max_length {max_length}")
        room = (limits - prompts.lengths).max(initial=0)
        completions = np.empty((len(prompts), room), np.uint8)
        lengths = np.zeros(len(prompts), np.int64)
        ended = np.zeros(len(prompts), np.bool_)
        for rows in self._batches_by_length(prompts):
            self._complete_batch(prompts.take(rows), rows, limits[rows], choose, completions, lengths, ended)
        inside = np.arange(room) < lengths[:, None]
        return Programs(completions[inside], offsets_of(lengths)), ended

    @torch.inference_mode()
    def log_probabilities(self, programs: Batch) -> list[np.ndarray]:
        """Log-probabilities of what follows each instruction: for each program float32, shape (tokens, 65).

        Raises:
            ValueError: a program is empty.
        """
        programs = _batch(programs)
        found: list[np.ndarray] = [np.empty(0)] * len(programs)
        for rows in self._batches_by_length(programs):
            for part in _parts_of_few_tokens(programs.lengths[rows]):
                x = last(self._residual_stream(programs.take(rows[part])))
                of_part = self.model.logits(x).log_softmax(-1).cpu().numpy()
                for row, of_program in zip(rows[part], of_part, strict=True):
                    found[row] = of_program[: programs.lengths[row]]
        return found

    @torch.inference_mode()
    def hidden_states(self, programs: Batch) -> Iterator[tuple[slice, np.ndarray]]:
        """The residual stream of programs of one length, a batch at a time.

        Yields:
            Which programs, and float32 of shape (layers + 1, programs, tokens, width): the embedding
            output, then the output of every block (the last one before the final LayerNorm).

        Raises:
            ValueError: the programs have different lengths or are empty.
        """
        programs = _batch(programs)
        for part in self._parts_of_one_length(programs):
            stream = self._residual_stream(programs.take(np.arange(part.start, part.stop)))
            yield part, torch.stack(list(stream)).cpu().numpy()

    @torch.inference_mode()
    def layer_logits(self, programs: Batch) -> Iterator[tuple[slice, np.ndarray]]:
        """What the model would say if the output of an earlier layer were that of its last one (logit lens).

        Yields:
            Which programs, and the logits of the next instruction: float32 of shape (layers + 1, programs,
            tokens, 65), in the order of :meth:`hidden_states`.

        Raises:
            ValueError: the programs have different lengths or are empty.
        """
        programs = _batch(programs)
        for part in self._parts_of_one_length(programs):
            stream = self._residual_stream(programs.take(np.arange(part.start, part.stop)))
            yield part, torch.stack([self.model.logits(x) for x in stream]).cpu().numpy()

    @torch.inference_mode()
    def attention(self, programs: Batch) -> Iterator[tuple[slice, np.ndarray]]:
        """How much each token attends to each token before it and to itself, a batch at a time.

        Yields:
            Which programs, and float32 of shape (layers, programs, heads, tokens, tokens); the last dimension
            are the tokens attended to, and sums to 1.

        Raises:
            ValueError: the programs have different lengths or are empty.
        """
        programs = _batch(programs)
        for part in self._parts_of_one_length(programs):
            rows = self._rows(programs.take(np.arange(part.start, part.stop)))
            yield part, torch.stack(list(self.model.attention(*rows))).cpu().numpy()

    @torch.inference_mode()
    def patched_logits(self, prompts: Batch, donors: Batch, layer: int, token: int) -> np.ndarray:
        """Logits of the instruction after each prompt if one of its hidden states is another program's.

        Args:
            prompts, donors: n programs each, all of one length.
            layer: behind which the state is exchanged; 0 is the embedding.
            token: at which it is, from 0.

        Returns:
            float32, shape (n, 65).

        Raises:
            ValueError: the programs have different lengths or are empty.
        """
        prompts, donors = _batch(prompts), _batch(donors)
        logits = np.empty((len(prompts), isa.VOCABULARY_SIZE), np.float32)
        if not np.array_equal(prompts.lengths, donors.lengths):
            raise ValueError("a program and its donor have different lengths")
        for part in self._parts_of_one_length(prompts):
            rows = np.arange(part.start, part.stop)
            given = next(islice(self._residual_stream(donors.take(rows)), layer, None))[:, token]
            for place, x in enumerate(self._residual_stream(prompts.take(rows))):
                if place == layer:
                    # The stream goes on from the tensor that it yielded.
                    x[:, token] = given
            logits[rows] = self.model.logits(x[:, -1]).cpu().numpy()
        return logits

    def _parts_of_one_length(self, programs: Programs) -> Iterator[slice]:
        if len(set(programs.lengths.tolist())) > 1:
            raise ValueError("the programs have different lengths")
        for start in range(0, len(programs), self.batch_size):
            yield slice(start, min(start + self.batch_size, len(programs)))

    def _batches_by_length(self, programs: Programs) -> Iterator[np.ndarray]:
        def fit(rows: int, shortest: int, longest: int) -> bool:
            return rows <= self.batch_size and longest <= max(2 * shortest, ALIKE)

        order = np.argsort(programs.lengths, kind="stable")
        for part in _parts(programs.lengths[order], fit):
            yield order[part]

    def _residual_stream(self, batch: Programs, cache: Cache | None = None) -> Iterator[torch.Tensor]:
        return self.model.residual_stream(*self._rows(batch), cache)

    def _rows(self, batch: Programs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tokens, positions and what is visible, one program a row; what fills it up comes after it, where
        the program does not look."""
        tokens = torch.from_numpy(padded_tokens(batch)).to(self.device)
        rows, length = tokens.shape
        positions = torch.arange(length, device=self.device).expand(rows, -1)
        visible = torch.ones(length, length, dtype=torch.bool, device=self.device).tril().expand(rows, -1, -1)
        return tokens, positions, visible

    def _complete_batch(
        self,
        prompts: Programs,
        rows: np.ndarray,
        limits: np.ndarray,
        choose: Choose,
        completions: np.ndarray,
        lengths: np.ndarray,
        ended: np.ndarray,
    ) -> None:
        """Continue ``prompts`` and enter the outcome at ``rows`` of the last three arguments."""
        cache = Cache(self.model.sizes, len(rows), int(prompts.lengths.max()), self.device)
        tokens = choose(self._logits_behind(prompts, cache), rows)
        ends = prompts.lengths
        live = np.ones(len(rows), np.bool_)
        while True:
            ended[rows[live & (tokens == isa.END_ID)]] = True
            live &= (tokens != isa.END_ID) & (ends < limits)
            if live.mean() < COMPACT_BELOW:
                rows, ends, limits, tokens = rows[live], ends[live], limits[live], tokens[live]
                kept, live = live, live[live]
                if not rows.size:
                    return
                cache.keep(torch.from_numpy(kept).to(self.device), int(ends.max()))
            completions[rows[live], lengths[rows[live]]] = BYTE_OF_TOKEN[tokens[live]]
            lengths[rows[live]] += 1
            cache.reserve(int(ends.max()) + 1)
            positions = torch.from_numpy(ends[:, None]).to(self.device)
            visible = torch.arange(ends.max() + 1, device=self.device) <= positions[:, :, None]
            fed = torch.from_numpy(tokens[:, None]).to(self.device)
            x = last(self.model.residual_stream(fed, positions, visible, cache))
            tokens = choose(self.model.logits(x[:, 0]), rows)
            ends = ends + live

    def _logits_behind(self, prompts: Programs, cache: Cache | None = None) -> torch.Tensor:
        """Logits of what follows each prompt: shape (n, 65).

        Args:
            prompts: in the order of their lengths; what fills a short one up beside a long one is computed.
            cache: where they are remembered.
        """
        logits = []
        for part in _parts_of_few_tokens(prompts.lengths):
            of_part = prompts.take(np.arange(part.start, part.stop))
            x = last(self._residual_stream(of_part, None if cache is None else cache.part(part)))
            ends = torch.from_numpy(of_part.lengths - 1).to(self.device)
            logits.append(self.model.logits(x[torch.arange(len(of_part)), ends]))
        return torch.cat(logits)


def _parts(lengths: np.ndarray, fit: Callable[[int, int, int], bool]) -> Iterator[slice]:
    """Cut ascending lengths where one more would not fit: ``fit(rows, shortest, longest)``."""
    start = 0
    for row, length in enumerate(lengths):
        if row > start and not fit(row + 1 - start, lengths[start], length):
            yield slice(start, row)
            start = row
    if len(lengths):
        yield slice(start, len(lengths))


def _parts_of_few_tokens(lengths: np.ndarray) -> Iterator[slice]:
    """Cut ascending lengths into parts of at most :data:`PROMPT_TOKENS`, or one program."""

    def fit(rows: int, shortest: int, longest: int) -> bool:
        return rows * longest <= PROMPT_TOKENS

    return _parts(lengths, fit)


def _batch(programs: Batch) -> Programs:
    """The programs as a batch.

    Raises:
        InputError: a string is no program to go on with.
        ValueError: a program of a batch is empty.
    """
    if isinstance(programs, str):
        raise InputError(f"{programs!r} is one string; a model is asked about several: [{programs!r}]")
    if not isinstance(programs, Programs):
        programs = Programs.from_strings(map(isa.check_prefix, programs))
    if programs.lengths.min(initial=1) == 0:
        raise ValueError("a program is empty: the model sees at least one instruction")
    return programs
