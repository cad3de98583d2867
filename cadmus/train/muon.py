"""NorMuon for the matrices of the blocks and Adam for everything else, on flat tensors.

Muon orthogonalizes the momentum of a matrix. Its rows, one per neuron, still differ in size; NorMuon (Li et
al., 2025, https://arxiv.org/abs/2510.05491) divides each by the root of its mean square over the last steps,
and keeps the norm of the whole. The momentum forgets faster in the first steps, whose gradients are soon old.

A small model has a hundred parameters, and an optimizer that visits one after the other spends most of its
time on starting operations. Here all weights are one fp32 tensor, and the parameters of the model are views
of it, or of a copy in the precision of the training. Newton-Schulz is batched: matrices of one shape, or of
its transpose, are orthogonalized together, and each rank takes its part of them.

DeepSpeed drives it. DeepSpeed's own Muon orthogonalizes one matrix after the other, on each rank that has a
part of it.
"""

import math
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn

from cadmus import config

DECAY_START, DECAY, DECAY_RAMP = 0.85, 0.95, 0.2
"""Weight of earlier gradients in Muon's momentum: it rises over the first fraction of the steps."""
ROW_DECAY = 0.95
"""Weight of earlier steps in the mean squares of rows."""
ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Of Newton-Schulz, by Jordan et al. (2024), https://kellerjordan.github.io/posts/muon."""
WEIGHT, MOMENTUM, ROW_SQUARES = "weight", "momentum_buffer", "row_squares"
ADAM_KINDS = "exp_avg", "exp_avg_sq"
"""Kinds of tensors in the training state: the fp32 weights, and the state of both optimizers. ``ROW_SQUARES``
have an element for each row of a matrix, the others have the shapes of the parameters."""
Named = dict[str, nn.Parameter]


def orthogonalize(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and all singular values near 1; R is at most C."""
    a, b, c = COEFFICIENTS
    # The iteration converges for singular values up to 1; the Frobenius norm is at least the largest one.
    x_NRC = matrices_NRC / (matrices_NRC.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram_NRR = x_NRC @ x_NRC.mT
        polynomial_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        x_NRC = torch.baddbmm(x_NRC, polynomial_NRR, x_NRC, beta=a)
    return x_NRC


def momentum_decay(done: float) -> float:
    """Return the weight of earlier gradients after a fraction of the steps."""
    return DECAY_START + (DECAY - DECAY_START) * min(1.0, done / DECAY_RAMP)


class Stack(NamedTuple):
    """Matrices of one shape, one after the other in a flat tensor."""

    start: int
    shape: tuple[int, int, int]
    """Number, rows and columns."""
    row: int
    """Number of rows before it."""

    def of(self, flat: Tensor) -> Tensor:
        """Return the matrices in a flat tensor, each with its rows of neurons."""
        return flat[self.start :][: math.prod(self.shape)].view(self.shape)

    def wide(self, matrices: Tensor) -> Tensor:
        """Transpose matrices with more rows than columns, or transpose them back."""
        return matrices.mT if self.shape[1] > self.shape[2] else matrices

    def row_factors(self, matrices: Tensor, row_squares: Tensor) -> Tensor:
        """Return the factors that give the rows of matrices one size; update the mean squares of all rows."""
        number, rows, columns = self.shape
        squares_NR = row_squares[self.row :][: number * rows].view(number, rows)
        sums_NR = torch.linalg.vector_norm(matrices, dim=-1).square()
        squares_NR.lerp_(sums_NR / columns, 1 - ROW_DECAY)
        # Only their ratios count, so it does not matter that they start at zero.
        factors_NR = squares_NR.clamp_min(1e-30).rsqrt()
        # The norm of a matrix stays.
        sizes_N = (sums_NR * factors_NR.square()).sum(-1)
        return (factors_NR * (sums_NR.sum(-1) / sizes_N.clamp_min(1e-30)).sqrt()[:, None])[..., None]


class Muon(torch.optim.Optimizer):
    """The optimizer of a model whose parameters it makes views of one tensor.

    The first of the two ``param_groups`` has the matrices of the blocks. ``tensors`` are the training state
    by kind, ``/`` and name of the parameter, fp32 views.
    """

    def __init__(self, model: nn.Module, train: config.Train, rank: int = 0, ranks: int = 1) -> None:
        self._rank, self._ranks = rank, ranks
        named = dict(model.named_parameters())
        # Embeddings and the head stay with Adam, as in Muon's source.
        matrices = {
            name: weight for name, weight in named.items() if name.startswith("layers.") and weight.ndim == 2
        }
        # Those of one shape next to each other, after those of the transposed one: a batch is a slice.
        matrices = dict(sorted(matrices.items(), key=lambda item: (sorted(item[1].shape), item[1].shape)))
        rest = {name: weight for name, weight in named.items() if name not in matrices}
        self._parameters = {**matrices, **rest}

        # Flat tensors: first the matrices, then the rest, in the order of the parameters.
        self._weights = torch.cat([each.detach().float().flatten() for each in self._parameters.values()])
        self._gradient, self._collected = torch.zeros_like(self._weights), False
        self._gradients = [*_views(self._gradient, self._parameters).values()]
        self._batches, size = _batches(matrices)
        matrix_weights, rest_weights = nn.Parameter(self._weights[:size]), nn.Parameter(self._weights[size:])
        self._momentum = torch.zeros_like(matrix_weights)
        row_counts = {name: len(weight) for name, weight in matrices.items()}
        self._row_squares = self._weights.new_zeros(sum(row_counts.values()))

        # Adam's state is made here, not in its first step: a checkpoint is loaded into it before.
        rest_weights.grad = self._gradient[size:]
        first, second = train.betas
        self._adam = torch.optim.AdamW([rest_weights], betas=(first, second), eps=1e-8, fused=True)
        self.adam_steps = torch.zeros((), device=self._weights.device)
        moments = {kind: torch.zeros_like(rest_weights) for kind in ADAM_KINDS}
        self._adam.state[rest_weights] = {"step": self.adam_steps, **moments}

        self.tensors: dict[str, Tensor] = {}
        states = [(WEIGHT, self._weights, self._parameters), (MOMENTUM, self._momentum, matrices)]
        states += [(kind, moment, rest) for kind, moment in moments.items()]
        for kind, state, parameters in states:
            self.tensors |= {f"{kind}/{name}": view for name, view in _views(state, parameters).items()}
        by_matrix = torch.split(self._row_squares, [*row_counts.values()])
        self.tensors |= {
            f"{ROW_SQUARES}/{name}": each for name, each in zip(matrices, by_matrix, strict=True)
        }

        groups = [
            {"params": [matrix_weights], "use_muon": True, "momentum": DECAY},
            {"params": [rest_weights], "use_muon": False},
        ]
        super().__init__(groups, {"lr": train.learning_rate, "weight_decay": train.weight_decay})
        self.cast(torch.float32)

    def cast(self, dtype: torch.dtype) -> None:
        """Let the model compute in a precision: with a copy of the weights, unless they have it."""
        self._computing = self._weights.to(dtype)
        for name, view in _views(self._computing, self._parameters).items():
            self._parameters[name].data = view

    @torch.no_grad()
    def load(self, read: Callable[[str], Tensor], adam_steps: int) -> None:
        """Copy a training state that ``read`` returns by the keys of ``tensors``."""
        for name, tensor in self.tensors.items():
            tensor.copy_(read(name))
        self.adam_steps.fill_(adam_steps)
        self._computing.copy_(self._weights)

    @torch.no_grad()
    def collect(self) -> None:
        """Add the gradients of a micro-batch to those of the step, in fp32."""
        parameters = self._parameters.values()
        # The first micro-batch replaces the gradients of the last step, which saves zeroing them.
        add = torch._foreach_add_ if self._collected else torch._foreach_copy_
        gradients: Any = [parameter.grad for parameter in parameters]
        add(self._gradients, gradients)
        self._collected = True
        for parameter in parameters:
            parameter.grad = None

    def get_grads_for_reduction(self) -> tuple[list[Tensor], dict[str, Any]]:
        """Add up the gradient over the ranks after the last micro-batch, while the next batch is loaded.

        DeepSpeed calls this, and gets nothing to reduce: it would wait.
        """
        self.collect()
        if self._ranks > 1:
            self._reduction = distributed.all_reduce(self._gradient, async_op=True)
        return [], {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if self._ranks > 1:
            self._reduction.wait()
            self._gradient.div_(self._ranks)
        matrix_group, rest_group = self.param_groups
        (matrices,) = matrix_group["params"]
        update = self._gradient[: len(matrices)]
        decay = matrix_group["momentum"]
        self._momentum.lerp_(update, 1 - decay)
        # Nesterov: a step ahead of the momentum.
        update.lerp_(self._momentum, decay)
        matrices.mul_(1 - matrix_group["lr"] * matrix_group["weight_decay"])
        for stack, orthogonal in self._orthogonalized(update):
            _, rows, columns = stack.shape
            # Scaled as DeepSpeed's Muon does.
            scale = math.sqrt(max(1, rows / columns))
            # A copy: products of mixed precisions and of transposed matrices take longer.
            orthogonal = orthogonal.to(torch.float32, memory_format=torch.contiguous_format)
            factors = stack.row_factors(orthogonal, self._row_squares)
            stack.of(matrices).addcmul_(orthogonal, factors, value=-matrix_group["lr"] * scale)
        # Adam has a group of its own; the schedule sets the one that DeepSpeed sees.
        self._adam.param_groups[0] |= {name: rest_group[name] for name in ("lr", "weight_decay")}
        self._adam.step()
        if self._computing is not self._weights:
            self._computing.copy_(self._weights)
        self._collected = False

    def _orthogonalized(self, flat: Tensor) -> Iterator[tuple[Stack, Tensor]]:
        """Yield each stack and its matrices, orthogonalized; each rank does its part."""
        parts = []
        flat = flat.to(self._computing.dtype)
        for batch in self._batches:
            matrices = torch.cat([stack.wide(stack.of(flat)) for stack in batch])
            # As many for each rank; those beyond the last one are zero.
            count = -(-len(matrices) // self._ranks)
            mine = matrices[self._rank * count :][:count]
            if missing := count - len(mine):
                mine = torch.cat([mine, mine.new_zeros((missing, *mine.shape[1:]))])
            parts.append(orthogonalize(mine))
        own = torch.cat([part.flatten() for part in parts])
        by_rank = own[None]
        if self._ranks > 1:
            # All at once, as each collective waits for the slower rank.
            by_rank = own.new_empty((self._ranks, len(own)))
            distributed.all_gather([*by_rank], own)
        by_batch = torch.split(by_rank, [part.numel() for part in parts], 1)
        for batch, part, results in zip(self._batches, parts, by_batch, strict=True):
            counts = [stack.shape[0] for stack in batch]
            # Without the zeros at the end.
            matrices = results.reshape(-1, *part.shape[1:])[: sum(counts)]
            for stack, orthogonal in zip(batch, torch.split(matrices, counts), strict=True):
                yield stack, stack.wide(orthogonal)


def _batches(matrices: Named) -> tuple[list[list[Stack]], int]:
    """Return the stacks of matrices in batches of one shape or its transpose, and the size of all."""
    batches, start, row = [], 0, 0
    for _, alike in groupby(matrices.values(), key=lambda each: sorted(each.shape)):
        batches.append(list[Stack]())
        for shape, stacked in groupby(alike, key=lambda each: each.shape):
            stack = Stack(start, (len([*stacked]), *shape), row)
            batches[-1].append(stack)
            start += math.prod(stack.shape)
            row += math.prod(stack.shape[:2])
    return batches, start


def _views(flat: Tensor, parameters: Named) -> dict[str, Tensor]:
    """Return the parts of a flat tensor that belong to the parameters, in their shapes."""
    parts = torch.split(flat, [each.numel() for each in parameters.values()])
    return {name: part.view(each.shape) for (name, each), part in zip(parameters.items(), parts, strict=True)}
