"""Batched inference: next-token logits, completions, hidden states, attention, logits from patched states.

Programs are sorted by length, so that little of a batch is padding. Completions have a key-value cache; rows
that have ended leave it when they are half of the batch. On a CPU each thread computes whole batches.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from cadmus import isa
from cadmus.config import Dataset
from cadmus.errors import InputError
from cadmus.model import find_model
from cadmus.model.decoding import Choose, TokenSampler, decoder_of, greedy
from cadmus.model.export import load_export, read_metadata
from cadmus.model.gpt import GPT, Cache, last
from cadmus.programs import Programs

if TYPE_CHECKING:
    from cadmus.templates.induction import Induced

PROMPT_TOKENS = {"cpu": 1024, "cuda": 65_536}  # with padding, per pass over prompts: a GPU needs many
PROGRAMS = {"cpu": 512, "cuda": 4096}  # default of the maximum number of programs in a batch
CACHE_BYTES = 8 * 2**30  # of a key-value cache, to which the default is reduced for a large model
SHORT = 16
"""Programs of up to this length are completed together, longer ones with those of up to twice their length:
a cache is as long as its longest row."""
FEW = 16  # programs that are not divided among threads
TOGETHER = 128  # programs completed together, whatever their lengths: a batch more takes longer than padding
Item = TypeVar("Item")
Batch = Programs | Iterable[str]
Layers = Iterator[tuple[slice, np.ndarray]]
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Tokens, positions and visible tokens, as :meth:`cadmus.model.gpt.GPT.residual_stream` takes them."""


class Cadmus:
    """A trained model for inference.

    Programs are :class:`cadmus.programs.Programs` or strings, without the end ``.``.  All methods raise
    ValueError for an empty program, an invalid program, and lengths that differ where they may not.

    ``batch_size`` is the maximum number of programs in a batch, on which results do not depend; by default
    one that suits the device. ``max_length`` is that of instructions in a program of its dataset.
    ``decoder`` is how it completes programs, by default as its attention allows.
    """

    def __init__(
        self,
        model: GPT,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> None:
        self.model = model
        self.causal = model.sizes.attention == "causal"
        self.decoder = decoder_of(model.sizes.attention)
        self.max_length = max_length or Dataset().max_length
        self.sizes = model.sizes
        self.device = next(model.parameters()).device
        self.batch_size = batch_size or self._default_batch_size()

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        sizes = f"{self.sizes.layers} layers, width {self.sizes.width}, {self.sizes.heads} heads"
        limit = f"programs of up to {self.max_length} instructions"
        return f"<Cadmus: {parameters:,} parameters, {sizes}, {limit}, on {self.device}>"

    def _default_batch_size(self) -> int:
        weight = self.model.embed_in.weight
        of_program = 2 * self.sizes.layers * self.sizes.width * self.max_length * weight.element_size()
        return max(1, min(PROGRAMS.get(self.device.type, PROGRAMS["cpu"]), CACHE_BYTES // of_program))

    @classmethod
    def load(
        cls,
        directory: Path | str | None = None,
        device: torch.device | str = "cpu",
        batch_size: int | None = None,
    ) -> "Cadmus":
        """Load a model: a directory, also one of ``save_pretrained``, or the name of a shipped model."""
        path = find_model(directory)
        return cls(load_export(path, device), batch_size, read_metadata(path).longest_program)

    def induce(
        self, examples: str | Sequence[str], k: int = 64, *, temperature: float = 1.0, seed: int = 0
    ) -> "list[Induced]":
        """Return the functions that examples may mean, the one with the most votes first.

        Of ``k`` sampled definitions, those that give all results vote for what they compute on fresh inputs;
        the list is empty if none does. Examples are such as ``["[1, 2, 3] -> 6", "[4, 5] -> 9"]``, or a
        prompt of complete_algorithm.
        """
        # It imports Numba.
        from cadmus.templates.induction import induce

        return induce(self, examples, k, temperature, seed)

    @torch.inference_mode()
    def next_logits(self, prompts: Batch) -> np.ndarray:
        """Return the logits of the instruction after each prompt: float32, shape (n, 65).

        With full attention, they are those of a completion of one instruction.
        """
        prompts = _as_programs(prompts)
        logits = np.empty((len(prompts), isa.VOCABULARY_SIZE), np.float32)

        def compute(rows: np.ndarray) -> None:
            batch = prompts.take(rows)
            found = self.decoder.next_logits(self, batch)
            logits[rows] = found.cpu().numpy()

        self.in_batches(compute, prompts.lengths)
        return logits

    def next_tokens(self, prompts: Batch) -> np.ndarray:
        """Return the id of the most likely instruction after each prompt: int64, shape (n,)."""
        return self.next_logits(prompts).argmax(1)

    @torch.inference_mode()
    def complete(
        self,
        prompts: Batch,
        max_length: int | np.ndarray | None = None,
        *,
        samples: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        first: int = 0,
    ) -> tuple[Programs, np.ndarray]:
        """Complete each of n prompts until the end ``.``, by default greedily.

        Args:
            max_length: maximum number of instructions of prompt and completion together, for all prompts or
                per prompt, int64 of shape (n,); by default that of the dataset.
            samples: completions per prompt; a prompt is computed once for all of them.
            temperature: divisor of the logits; 0 takes the most likely instruction.
            top_p: cumulative probability of the nucleus; instructions outside are never sampled.
            seed: at least 0; decides the samples, whatever the batch size.
            first: number of samples of this seed that were drawn before.

        Returns:
            The n * samples completions without the end, those of a prompt in a row, and bools of the same
            length: True if the completion ended, False if ``max_length`` truncated it.
        """
        prompts = _as_programs(prompts)
        max_length = self.max_length if max_length is None else max_length
        limits = np.broadcast_to(max_length, len(prompts))
        if (prompts.lengths > limits).any():
            raise ValueError(f"a prompt is longer than max_length {max_length}")
        if not (samples >= 1 and temperature >= 0 and 0 < top_p <= 1):
            wanted = "samples must be at least 1, temperature at least 0, top_p above 0 and at most 1"
            raise ValueError(f"{wanted}; got {samples}, {temperature} and {top_p}")
        copies = np.repeat(np.arange(len(prompts)), samples)  # equal prompts are computed once: start
        prompts, limits = prompts.take(copies), limits[copies]
        choose: Choose = greedy
        if temperature:
            choose = TokenSampler(len(prompts), temperature, seed, top_p, first)
        return self.decoder.complete(self, prompts, limits, choose)

    @torch.inference_mode()
    def log_probabilities(self, programs: Batch) -> list[np.ndarray]:
        """Return next-token log-probabilities, for each program float32 of shape (tokens, 65)."""
        self.need_causal("next-token probabilities")
        programs = _as_programs(programs)
        results = [np.empty(0)] * len(programs)
        for rows in self._batches_by_length(programs.lengths, self.batch_size):
            for part, inputs in self._passes(programs.take(rows)):
                x = last(self.model.residual_stream(*inputs))
                log_probabilities = self.model.logits(x).log_softmax(-1).cpu().numpy()
                for row, of_program in zip(rows[part], log_probabilities, strict=True):
                    results[row] = of_program[: programs.lengths[row]]
        return results

    def completion_losses(
        self, programs: Programs, prompt_length: np.ndarray, bar: bool = False
    ) -> np.ndarray:
        """Return the mean loss of each completion, its end included, in nats per token: float64, shape (n,).

        With full attention, the length of a completion is in the place of its end.
        """
        total = self.decoder.log_likelihoods(self, programs, prompt_length, bar)
        return -total / (programs.lengths - prompt_length + 1)

    def hidden_states(self, programs: Batch) -> Layers:
        """Yield the residual stream of programs of one length, batch by batch, each with its slice.

        It is float32 of shape (layers + 1, programs, tokens, width): the output of the embedding and of every
        block, the last one before the final LayerNorm.
        """
        return self._layers(programs, self.model.residual_stream)

    def layer_logits(self, programs: Batch) -> Layers:
        """As :meth:`hidden_states`, for the logits of the logit lens: (layers + 1, programs, tokens, 65)."""
        stream = self.model.residual_stream
        return self._layers(programs, lambda *inputs: map(self.model.logits, stream(*inputs)))

    def attention(self, programs: Batch) -> Layers:
        """As :meth:`hidden_states`, for attention weights: (layers, programs, heads, tokens, tokens).

        The last dimension, the tokens attended to, sums to 1.
        """
        return self._layers(programs, self.model.attention)

    @torch.no_grad()
    def states(self, prompts: Batch) -> list[torch.Tensor]:
        """Return the output of each layer, the embedding first: (n, L, D), with padding after the shorter."""
        self.need_causal("the state after a token")
        return list(self.model.residual_stream(*self._inputs(_as_programs(prompts))))

    def logits_from(self, states: torch.Tensor, layer: int, ends: torch.Tensor) -> torch.Tensor:
        """Return logits after the tokens ``ends``, (n,), from a layer's output, with gradients: (n, V)."""
        rows, length, _ = states.shape
        positions, visible = self._positions(rows, length)
        x = last(chain([states], self.model.continued(states, layer, positions, visible)))
        return self.model.logits(x[torch.arange(rows, device=self.device), ends])

    @torch.inference_mode()
    def _layers(self, programs: Batch, compute: Callable[..., Iterable[torch.Tensor]]) -> Layers:
        self.need_causal("the state after a token")
        programs = _as_programs(programs)
        if len(set(programs.lengths.tolist())) > 1:  # states of padding would look like results
            raise ValueError("the programs have different lengths")
        for rows in self._batches_by_length(programs.lengths, self.batch_size):
            layers = list(compute(*self._inputs(programs.take(rows))))
            yield slice(rows[0], rows[-1] + 1), torch.stack(layers).cpu().numpy()

    def need_causal(self, wanted: str) -> None:
        """Raise InputError if the model has full attention; ``wanted`` is what needs a causal one."""
        if not self.causal:
            raise InputError(f"{wanted} needs a causal model; model.attention of this one is full")

    def in_batches(self, compute: Callable[[np.ndarray], None], lengths: np.ndarray) -> None:
        """Call ``compute`` with the indices of programs of similar lengths, a batch at a time."""
        most = max(FEW, math.ceil(len(lengths) / threads_of(self.device)))  # a batch for every thread
        batches = self._batches_by_length(lengths, min(self.batch_size, most))
        in_parallel(compute, batches, self.device)

    def _batches_by_length(self, lengths: np.ndarray, most: int) -> Iterator[np.ndarray]:
        def fits(rows: int, shortest: int, longest: int) -> bool:
            similar = longest <= max(2 * shortest, SHORT)
            return rows <= most and (similar or rows <= TOGETHER)

        order = np.argsort(lengths, kind="stable")  # stable, so that _layers yields slices
        for part in _parts(lengths[order], fits):
            yield order[part]

    def _passes(self, programs: Programs) -> Iterator[tuple[slice, Inputs]]:
        """Yield inputs of at most ``PROMPT_TOKENS`` for programs in order of length."""
        most = PROMPT_TOKENS.get(self.device.type, PROMPT_TOKENS["cpu"])
        for part in _parts(programs.lengths, lambda rows, _, longest: rows * longest <= most):
            yield part, self._inputs(programs.take(np.arange(part.start, part.stop)))

    def _inputs(self, programs: Programs) -> Inputs:
        """Return the inputs for one program per row; padding follows it, to which no token of it attends."""
        tokens = torch.from_numpy(programs.to_tokens()).to(self.device)
        positions, visible = self._positions(*tokens.shape)
        if not self.causal:
            lengths = torch.from_numpy(programs.lengths).to(self.device)
            visible = (positions < lengths[:, None])[:, None].expand(-1, tokens.shape[1], -1)
        return tokens, positions, visible

    def _positions(self, rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        positions = torch.arange(length, device=self.device).expand(rows, -1)
        visible = torch.ones(length, length, dtype=torch.bool, device=self.device).tril().expand(rows, -1, -1)
        return positions, visible

    def token_logits(self, tokens: np.ndarray, lengths: np.ndarray, cache: Cache) -> torch.Tensor:
        """Return the logits after one more token of each program in the cache: (n, 65)."""
        positions = torch.from_numpy(lengths[:, None]).to(self.device)
        visible = torch.arange(lengths.max() + 1, device=self.device) <= positions[:, :, None]
        inputs = torch.from_numpy(tokens[:, None]).to(self.device)
        x = last(self.model.residual_stream(inputs, positions, visible, cache))
        return self.model.logits(x[:, 0])

    def start(self, prompts: Programs) -> tuple[torch.Tensor, Cache]:
        """Return the logits after each prompt, (n, 65), and the cache; equal prompts are computed once.

        The prompts are in order of length.
        """
        _, firsts, index = np.unique(prompts.to_strings(), return_index=True, return_inverse=True)
        distinct = np.sort(firsts)
        longest = int(prompts.lengths.max())
        cache = Cache(self.model.sizes, len(distinct), longest, self.model.embed_in.weight)
        logits = self.prompt_logits(prompts.take(distinct), cache)
        if len(distinct) < len(prompts):
            rows = torch.from_numpy(np.searchsorted(distinct, firsts[index])).to(self.device)
            logits = logits[rows]
            cache.keep(rows, longest)
        return logits, cache

    def prompt_logits(self, prompts: Programs, cache: Cache | None = None) -> torch.Tensor:
        """Return the logits after each of the prompts, shape (n, 65), and fill their rows of the cache."""
        logits = []
        for part, inputs in self._passes(prompts):
            x = last(self.model.residual_stream(*inputs, cache and cache.part(part)))
            ends = torch.from_numpy(prompts.lengths[part] - 1).to(self.device)
            logits.append(self.model.logits(x[torch.arange(len(ends)), ends]))
        return torch.cat(logits)


def _parts(lengths: np.ndarray, fits: Callable[[int, int, int], bool]) -> Iterator[slice]:
    """Cut ascending lengths into the longest parts for which ``fits(rows, shortest, longest)``."""
    start = 0
    for row, length in enumerate(lengths):
        if row > start and not fits(row + 1 - start, lengths[start], length):
            yield slice(start, row)
            start = row
    if len(lengths):
        yield slice(start, len(lengths))


def _as_programs(programs: Batch) -> Programs:
    if isinstance(programs, str):
        raise ValueError(f"{programs!r} is one string; give a list of programs: [{programs!r}]")
    if not isinstance(programs, Programs):
        programs = Programs.from_strings(map(isa.check_prefix, programs))
    if programs.lengths.min(initial=1) == 0:
        raise ValueError("a program is empty: the model needs at least one instruction")
    return programs


def threads_of(device: torch.device) -> int:
    """Return how many computations :func:`in_parallel` does at a time: on a CPU one per PyTorch thread."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def in_parallel(compute: Callable[[Item], None], items: Iterable[Item], device: torch.device) -> None:
    """Call ``compute`` with each item, on a CPU in as many threads as PyTorch has.

    An operation that PyTorch divides among its threads waits for the slowest of them: on a busy machine it
    may take twenty times as long, and a small one gains little from a second thread (log: next to busy
    processes). Here the threads share no operation. The first error of ``compute`` drops the items that have
    not begun.
    """
    # A mode of the thread that enters it.
    compute = torch.inference_mode()(compute)
    items, threads = list(items), torch.get_num_threads()
    workers = min(threads_of(device), len(items))
    if workers < 2:
        for item in items:
            compute(item)
        return
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
    try:
        with pool:
            list(pool.map(compute, items))
    finally:
        # Threads that start later have the number that was set last.
        torch.set_num_threads(threads)


@contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
