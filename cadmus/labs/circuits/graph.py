"""Circuits: the edges between the parts of a model, exchanged one by one.

The embedding, each head and each MLP add what they write to the residual stream, and each of them, as well as
the output, reads the sum of what came before (Elhage et al. 2021). An edge is one summand of what one part
reads. In an exchange the receiver reads what the sender writes for another program, the source, and nothing
else changes: the effect on the answer shows what the edge carries (path patching, Goldowsky-Dill et al.
2023). A circuit is a set of edges; all others are exchanged, and if the answer stays right, it is enough
(Conmy et al. 2023).

Measuring each edge takes a pass of the model. Gradients estimate all of them in one (edge attribution
patching, Syed et al. 2023), or in a few between the two programs (integrated gradients, Hanna et al. 2024).

Shape suffixes: as in :mod:`cadmus.model.gpt`, with E edges and N = 3 inputs of a head.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn import functional as F

from cadmus.evaluate.prompts.counterfactuals import first_tokens, rightly_answered
from cadmus.model.gpt import Block, attend_eager, bias_of, rotated, rotation_of
from cadmus.model.inference import Cadmus, in_parallel
from cadmus.programs import Programs
from cadmus.tools import progress

EMBEDDING, OUTPUT = "embedding", "output"
INPUTS = ("query", "key", "value")
CIRCUITS = 26  # sizes of circuits that are measured
ReadLayer = Callable[[int, Tensor, list[Tensor]], Tensor]
"""Maps the number of a receiver, the residual stream (R, L, D) and what the senders before it have written,
(R, L, D) each, to what it reads: (R, L, D)."""


class Edges(NamedTuple):
    """The edges of a model. Blocks and heads count from 1."""

    senders: list[str]
    """``embedding``, ``head 1.1`` (block and head) … ``mlp 1`` …, in the order in which they write."""
    receivers: list[str]
    """``head 1.1 query``, ``head 1.1 key``, ``head 1.1 value`` … ``mlp 1`` … ``output``."""
    pairs: np.ndarray
    """Sender and receiver of each edge: int64, shape (E, 2)."""

    def named(self) -> list[tuple[str, str]]:
        """Return the names of sender and receiver of each edge."""
        return [(self.senders[sender], self.receivers[receiver]) for sender, receiver in self.pairs.tolist()]


def edges_of(model: Cadmus) -> Edges:
    """Return the edges of a model, by receiver and then by sender."""
    senders, receivers, pairs = [EMBEDDING], list[str](), list[tuple[int, int]]()

    def receive(name: str) -> None:
        pairs.extend((sender, len(receivers)) for sender in range(len(senders)))
        receivers.append(name)

    for block in range(1, model.sizes.layers + 1):
        heads = [f"head {block}.{head}" for head in range(1, model.sizes.heads + 1)]
        for head in heads:
            for each in INPUTS:
                receive(f"{head} {each}")
        senders += heads
        receive(f"mlp {block}")
        senders.append(f"mlp {block}")
    receive(OUTPUT)
    return Edges(senders, receivers, np.array(pairs))


class Pairs(NamedTuple):
    """Minimal pairs that a model answers rightly, of programs of any lengths, each with padding after it."""

    base_RL: Tensor
    source_RL: Tensor
    end_R: Tensor
    """The last token of both programs."""
    answer_R: Tensor
    """Token that is right after the base."""
    other_R: Tensor
    """Token that is right after the source."""


def minimal_pairs_of(model: Cadmus, table: pl.DataFrame) -> Pairs:
    """Return those of the minimal pairs that a model gets right."""
    model.need_causal("a circuit")
    rows = rightly_answered(model, table)
    base, source = (Programs.from_strings(table[side]).take(rows) for side in ("base", "source"))
    answers = [first_tokens(table[f"{side}_answer"])[rows] for side in ("base", "source")]
    arrays = base.to_tokens(), source.to_tokens(), base.lengths - 1, *answers
    return Pairs(*(torch.from_numpy(array).to(model.device) for array in arrays))


class Graph:
    """A model as a graph of its parts, which reads minimal pairs."""

    def __init__(self, model: Cadmus, pairs: Pairs) -> None:
        self.model, self.pairs, self.edges = model.model, pairs, edges_of(model)
        positions_RL = torch.arange(pairs.base_RL.shape[1], device=model.device).expand_as(pairs.base_RL)
        self.rotation = rotation_of(positions_RL, model.sizes, self.model.embed_in.weight.dtype)
        visible_RLL = positions_RL[:, None] <= positions_RL[:, :, None]
        self.bias_R1LL = bias_of(visible_RLL, self.model.embed_in.weight.dtype)
        # Of each block.
        self._senders, self._receivers = model.sizes.heads + 1, len(INPUTS) * model.sizes.heads + 1
        self._streams: list[Tensor] = []
        """The residual stream of the bases before each block, and after the last one."""
        with torch.inference_mode():
            self.base_RV, self.base = self.forward(self.model.embed_in(pairs.base_RL), self._note)
            self.source_RV, self.source = self.forward(self.model.embed_in(pairs.source_RL))

    def _note(self, receiver: int, x_RLD: Tensor, _: list[Tensor]) -> Tensor:
        if receiver % self._receivers == 0:
            self._streams.append(x_RLD)
        return x_RLD

    def forward(
        self, x_RLD: Tensor, read: ReadLayer | None = None, start: int = 0, sent: Sequence[Tensor] = ()
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits after the last tokens, (R, V), and what each sender writes: (R, L, D) each.

        ``x_RLD`` is what the embedding writes or, after ``start`` blocks, the residual stream, to which the
        senders before have written ``sent``.
        """
        gpt, sent, receivers = self.model, [*(sent or [x_RLD])], count(start * self._receivers)

        def seen(x_RLD: Tensor) -> Tensor:
            number = next(receivers)
            return x_RLD if read is None else read(number, x_RLD, sent)

        for number in range(start, gpt.sizes.layers):
            block = gpt.layers[number]
            assert isinstance(block, Block)
            outputs_HRLD = self._heads(block, x_RLD, seen)
            sent.extend(outputs_HRLD)
            # The bias is the same for every program.
            x_RLD = x_RLD + outputs_HRLD.sum(0) + block.attention.dense.bias
            sent.append(block.mlp(block.post_attention_layernorm(seen(x_RLD))))
            x_RLD = x_RLD + sent[-1]
        rows = torch.arange(len(x_RLD), device=x_RLD.device)
        return gpt.logits(seen(x_RLD)[rows, self.pairs.end_R]), sent

    def _heads(self, block: Block, x_RLD: Tensor, seen: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what each head of a block writes: (H, R, L, D)."""
        project, dense, heads = block.attention.query_key_value, block.attention.dense, block.attention.heads
        weight_HNKD = project.weight.view(heads, len(INPUTS), -1, x_RLD.shape[-1])
        bias_HNK = project.bias.view(heads, len(INPUTS), -1)
        qkv_RLHNK = project(block.input_layernorm(x_RLD)).unflatten(-1, (heads, len(INPUTS), -1))
        columns = list(qkv_RLHNK.flatten(2, 3).unbind(2))
        for column, (weight_KD, bias_K) in enumerate(
            zip(weight_HNKD.flatten(0, 1), bias_HNK.flatten(0, 1), strict=True)
        ):
            # Few edges are exchanged at a time.
            if (seen_RLD := seen(x_RLD)) is not x_RLD:
                columns[column] = F.linear(block.input_layernorm(seen_RLD), weight_KD, bias_K)
        rows, length, _ = x_RLD.shape
        qkv_RLHNK = torch.stack(columns, 2).view(rows, length, heads, len(INPUTS), -1)
        z_RHLK = attend_eager(*rotated(qkv_RLHNK, self.rotation), self.bias_R1LL)
        return torch.einsum("rhlk,dhk->hrld", z_RHLK, dense.weight.view(len(dense.weight), heads, -1))

    def exchanged(self, chosen_E: np.ndarray) -> Tensor:
        """Return the logits after the bases if some edges, bool of shape (E,), are exchanged: (R, V)."""
        by_receiver: dict[int, list[int]] = defaultdict(list)
        for sender, receiver in self.edges.pairs[chosen_E].tolist():
            by_receiver[receiver].append(sender)

        def read(receiver: int, x_RLD: Tensor, sent: list[Tensor]) -> Tensor:
            for sender in by_receiver[receiver]:
                x_RLD = x_RLD + (self.source[sender] - sent[sender])
            return x_RLD

        # Nothing changes before the block of the first receiver.
        start = min(by_receiver, default=len(self.edges.receivers) - 1) // self._receivers
        sent = self.base[: 1 + start * self._senders]
        with torch.inference_mode():
            return self.forward(self._streams[start], read, start, sent)[0]

    def preference(self, logits_RV: Tensor) -> Tensor:
        """Return the mean logit of the answers after the sources, less that after the bases: a number."""
        rows = torch.arange(len(logits_RV), device=logits_RV.device)
        return (logits_RV[rows, self.pairs.other_R] - logits_RV[rows, self.pairs.answer_R]).mean()

    def effects(self) -> tuple[np.ndarray, np.ndarray]:
        """Exchange each edge alone; return its effect and how many answers change: shape (E,) each.

        The effect is that on the preference for the other answer, as a fraction of what the source does.
        """
        start, end = self.preference(self.base_RV), self.preference(self.source_RV)
        effects, changed = np.empty(len(self.edges.pairs)), np.empty(len(self.edges.pairs), np.int64)
        alone_EE = np.eye(len(effects), dtype=np.bool_)

        def measure(edge: int) -> None:
            logits_RV = self.exchanged(alone_EE[edge])
            effects[edge] = (self.preference(logits_RV) - start) / (end - start)
            changed[edge] = (logits_RV.argmax(1) == self.pairs.other_R).sum()

        in_parallel(measure, progress("edges", range(len(effects))), self.pairs.end_R.device)
        return effects, changed

    def attributed(self, points: int) -> np.ndarray:
        """Estimate the effects by gradients at points between the embeddings of base and source: shape (E,).

        One point is the base itself.
        """
        total = self.preference(self.source_RV) - self.preference(self.base_RV)
        gradients = [torch.zeros_like(self.base[0]) for _ in self.edges.receivers]
        for point in range(points):
            share = (point + 0.5) / points if points > 1 else 0.0
            x_RLD = torch.lerp(self.base[0], self.source[0], share)
            probes = [torch.zeros_like(x_RLD, requires_grad=True) for _ in gradients]
            logits_RV, _ = self.forward(x_RLD, lambda receiver, x_RLD, _: x_RLD + probes[receiver])  # noqa: B023
            for gradient, own in zip(
                gradients, torch.autograd.grad(self.preference(logits_RV), probes), strict=True
            ):
                gradient += own / points
        changes = [source - base for source, base in zip(self.source, self.base, strict=True)]
        effects = [
            (changes[sender] * gradients[receiver]).sum() / total
            for sender, receiver in self.edges.pairs.tolist()
        ]
        return torch.stack(effects).numpy(force=True).astype(np.float64)

    def kept(self, scores_E: np.ndarray, sizes: Sequence[int]) -> list[int]:
        """Count the answers that stay right in the circuits of the edges with the largest absolute scores."""
        order, right = np.argsort(-abs(scores_E), kind="stable"), dict.fromkeys(sizes, 0)

        def measure(size: int) -> None:
            chosen_E = np.ones(len(order), np.bool_)
            chosen_E[order[:size]] = False
            right[size] = int((self.exchanged(chosen_E).argmax(1) == self.pairs.answer_R).sum())

        in_parallel(measure, sizes, self.pairs.end_R.device)
        return list(right.values())


def circuit_sizes(edges: int) -> list[int]:
    """Return sizes of circuits, from 1 to all edges, at equal steps of the logarithm.

    >>> circuit_sizes(479)[:8], circuit_sizes(479)[-3:]
    ([1, 2, 3, 4, 5, 7, 9, 11], [292, 374, 479])
    """
    return sorted({round(size) for size in np.geomspace(1, edges, CIRCUITS).tolist()})
