"""The decoder-only transformer of the paper's Section 2, with every size from the config.

It is GPT-NeoX with sequential residuals, full rotary positions and GELU or squared ReLU, so ``transformers``
runs an export without our code.  A row of the input packs several programs: attention stays within a program,
and positions restart with each.

Shape suffixes: R rows, L tokens of a row, S tokens attended to (L, or the cache), D width, H heads,
K width of a head, V vocabulary.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cadmus import config, isa

ROTARY_BASE = 10_000.0
LAYER_NORM_EPSILON = 1e-5
INITIAL_DEVIATION = 0.02
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu2": lambda x: F.relu(x).square()}
"""By the names that ``transformers`` has for them."""
MASK_ID = isa.VOCABULARY_SIZE
"""Token of models with full attention, which no program contains."""
PREVIOUS_GAP = 4.0
"""Score of the token that a previous-token head starts to attend to, less that of its neighbors."""
SPARE = 16  # positions that a cache has to spare, because growing it copies it
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Maps scaled queries (R, H, L, K), keys and values (R, H, S, K) and a bias (R, 1, L, S) to the attention
output (R, H, L, K)."""
Edit = Callable[[int, Tensor], Tensor]
"""Maps the index and the output of a layer, 0 for the embedding, to what the next one reads: (R, L, D)."""


class Cache:
    """Key-value cache, one row per program; indexed by position, so rows may differ in length.

    It starts with ``length`` tokens per program, on the device and in the precision of ``like``.
    """

    def __init__(self, sizes: config.Model, rows: int, length: int, like: Tensor) -> None:
        shape = (sizes.layers, 2, rows, sizes.heads, length + SPARE, sizes.width // sizes.heads)
        # Not empty memory: a hidden position has the weight 0, and 0 times NaN is NaN.
        self.entries = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self.layer = 0
        """Number of the block whose entries are next."""

    def extend(self, positions_RL: Tensor, k_RHLK: Tensor, v_RHLK: Tensor, length: int) -> Tensor:
        """Add the keys and values of a block; return its first ``length`` positions: (2, R, H, S, K)."""
        missing = length - self.entries.shape[-2]
        if missing > 0:
            self.entries = F.pad(self.entries, (0, 0, 0, missing + SPARE))
        entries = self.entries[self.layer]
        rows = torch.arange(len(positions_RL), device=positions_RL.device)[:, None]
        entries[0][rows, :, positions_RL] = k_RHLK.transpose(1, 2)  # (R, L, H, K): indexed axes come first
        entries[1][rows, :, positions_RL] = v_RHLK.transpose(1, 2)
        return entries[..., :length, :]

    def part(self, rows: slice) -> "Cache":
        """Return a view of some rows."""
        part = copy(self)  # shares the memory, so that what a part adds is in the whole
        part.entries = self.entries[:, :, rows]
        return part

    def keep(self, rows: Tensor, length: int) -> None:
        """Keep these rows, a mask or indices that may repeat, of at most ``length`` tokens."""
        self.entries = self.entries[:, :, rows, :, : length + SPARE]


class GPT(nn.Module):
    """The model; its parameters have the names of GPT-NeoX in ``transformers``."""

    attend: Attend | None = None
    """Implementation of attention; None is that of the device."""

    def __init__(self, sizes: config.Model) -> None:
        super().__init__()
        self.sizes = sizes
        vocabulary = isa.VOCABULARY_SIZE + (sizes.attention == "full")
        self.embed_in = nn.Embedding(vocabulary, sizes.width)
        blocks = [Block(sizes) for _ in range(sizes.layers)]  # typed, unlike a ModuleList
        self.layers = nn.ModuleList(blocks)
        self.final_layer_norm = nn.LayerNorm(sizes.width, LAYER_NORM_EPSILON)
        self.lm_head = nn.Linear(sizes.width, vocabulary, bias=False)
        if sizes.tied:
            self.lm_head.weight = self.embed_in.weight
        self.apply(initialize)
        # Blocks add to the residual stream twice; scaled so, its initial variance is independent of depth.
        for block in blocks:
            for projection in (block.attention.dense, block.mlp.dense_4h_to_h):
                nn.init.normal_(projection.weight, std=INITIAL_DEVIATION / math.sqrt(2 * sizes.layers))

    def forward(self, tokens_RL: Tensor, positions_RL: Tensor, segments_RL: Tensor) -> Tensor:
        """Return logits, shape (R, L, V): of the next token, or with full attention of the token itself.

        Positions are those in the program, from 0; segments are as in :meth:`visible`.
        """
        return self.logits(last(self.residual_stream(tokens_RL, positions_RL, self.visible(segments_RL))))

    def visible(self, segments_RL: Tensor) -> Tensor:
        """Return which tokens each token attends to, (R, L, L).

        These are the earlier ones of its program and itself. Segments tell the programs of a row apart. With
        full attention, they are all tokens of its program, for those of a prompt the prompt: the segment of a
        prompt is even, that of the rest of its program the next number.
        """
        queries_RL1, keys_R1L = segments_RL[:, :, None], segments_RL[:, None, :]
        if self.sizes.attention == "full":
            return (queries_RL1 >> 1 == keys_R1L >> 1) & (keys_R1L <= queries_RL1)
        return (queries_RL1 == keys_R1L).tril()

    def compile_blocks(self, backend: str = "inductor") -> None:
        """Compile the blocks with torch.compile: one graph for all blocks and any number of rows."""
        for block in self.layers:
            block.compile(dynamic=True, backend=backend)  # or each number of rows would be compiled anew

    def residual_stream(
        self,
        tokens_RL: Tensor,
        positions_RL: Tensor,
        visible_RLS: Tensor,
        cache: Cache | None = None,
        edit: Edit = lambda layer, x_RLD: x_RLD,
    ) -> Iterator[Tensor]:
        """Yield the output of the embedding and of every block, each of shape (R, L, D).

        ``visible_RLS`` is True for the tokens that each token attends to, at least one. ``cache`` holds
        earlier tokens; these are added. ``edit`` changes outputs before they are read (activation patching).
        """
        x_RLD = edit(0, self.embed_in(tokens_RL))
        yield x_RLD
        yield from self.continued(x_RLD, 0, positions_RL, visible_RLS, cache, edit)

    def continued(
        self,
        x_RLD: Tensor,
        layer: int,
        positions_RL: Tensor,
        visible_RLS: Tensor,
        cache: Cache | None = None,
        edit: Edit = lambda layer, x_RLD: x_RLD,
    ) -> Iterator[Tensor]:
        """Yield the outputs of the blocks after ``layer``, whose output is ``x_RLD``."""
        attend = self.attend or IMPLEMENTATIONS.get(x_RLD.device.type, attend_eager)
        bias_R1LS = bias_of(visible_RLS, x_RLD.dtype)
        rotation = rotation_of(positions_RL, self.sizes, x_RLD.dtype)
        context = Context(positions_RL, rotation, attend, bias_R1LS, cache)  # once for all blocks
        for number in range(layer, self.sizes.layers):
            if cache is not None:
                cache.layer = number
            x_RLD = edit(number + 1, self.layers[number](x_RLD, context))
            yield x_RLD

    def attention(self, tokens_RL: Tensor, positions_RL: Tensor, visible_RLL: Tensor) -> Iterator[Tensor]:
        """Yield the attention weights of every block, each of shape (R, H, L, L)."""
        stream = self.residual_stream(tokens_RL, positions_RL, visible_RLL)
        dtype = self.embed_in.weight.dtype
        rotation, bias_R1LL = rotation_of(positions_RL, self.sizes, dtype), bias_of(visible_RLL, dtype)
        # The last output has no block after it.
        for block, x_RLD in zip(self.layers, stream, strict=False):
            assert isinstance(block, Block)
            yield block.attention.weights(block.input_layernorm(x_RLD), rotation, bias_R1LL)

    def logits(self, x_RLD: Tensor) -> Tensor:
        """Return logits from the output of the last block; none is of the mask."""
        return self.lm_head(self.final_layer_norm(x_RLD))[..., : isa.VOCABULARY_SIZE]


class Context(NamedTuple):
    """Inputs of every block, besides the output of the one before it."""

    positions_RL: Tensor
    rotation: tuple[Tensor, Tensor]
    attend: Attend
    bias_R1LS: Tensor
    cache: Cache | None


class Block(nn.Module):
    def __init__(self, sizes: config.Model) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(sizes.width, LAYER_NORM_EPSILON)
        self.attention = Attention(sizes)
        self.post_attention_layernorm = nn.LayerNorm(sizes.width, LAYER_NORM_EPSILON)
        self.mlp = MLP(sizes)

    def forward(self, x_RLD: Tensor, context: Context) -> Tensor:
        # One after the other; GPT-NeoX's own default computes both from the same input.
        x_RLD = x_RLD + self.attention(self.input_layernorm(x_RLD), context)
        return x_RLD + self.mlp(self.post_attention_layernorm(x_RLD))


class Linear(nn.Linear):
    """A linear map that adds its bias after the product.

    The product with a bias of PyTorch first copies the bias into each row, which takes longer than the sum in
    the operation that the compiler makes of it and what follows.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight) + self.bias


class Attention(nn.Module):
    def __init__(self, sizes: config.Model) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query_key_value = Linear(sizes.width, 3 * sizes.width)
        self.dense = Linear(sizes.width, sizes.width)

    def forward(self, x_RLD: Tensor, context: Context) -> Tensor:
        positions_RL, rotation, attend, bias_R1LS, cache = context
        q_RHLK, k_RHLK, v_RHLK = self._project(x_RLD, rotation)
        if cache is not None:
            k_RHLK, v_RHLK = cache.extend(positions_RL, k_RHLK, v_RHLK, bias_R1LS.shape[-1])
        return self.dense(attend(q_RHLK, k_RHLK, v_RHLK, bias_R1LS).transpose(1, 2).flatten(2))

    def weights(self, x_RLD: Tensor, rotation: tuple[Tensor, Tensor], bias_R1LL: Tensor) -> Tensor:
        q_RHLK, k_RHLK, _ = self._project(x_RLD, rotation)
        return attention_weights(q_RHLK, k_RHLK, bias_R1LL)

    def _project(self, x_RLD: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        # GPT-NeoX interleaves query, key and value per head.
        return rotated(self.query_key_value(x_RLD).unflatten(-1, (self.heads, 3, -1)), rotation)


class MLP(nn.Module):
    def __init__(self, sizes: config.Model) -> None:
        super().__init__()
        self.dense_h_to_4h = Linear(sizes.width, sizes.mlp)
        self.dense_4h_to_h = Linear(sizes.mlp, sizes.width)
        self.activation = ACTIVATIONS[sizes.activation]

    def forward(self, x_RLD: Tensor) -> Tensor:
        return self.dense_4h_to_h(self.activation(self.dense_h_to_4h(x_RLD)))


def rotated(qkv_RLH3K: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, (R, H, L, K) each, the first two rotated by their positions."""
    q_RLHK, k_RLHK, v_RLHK = _Rotate.apply(qkv_RLH3K, *rotation)  # type: ignore[no-untyped-call]
    return q_RLHK.transpose(1, 2), k_RLHK.transpose(1, 2), v_RLHK.transpose(1, 2)


def bias_of(visible_RLS: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias of the attention scores, (R, 1, L, S): 0 for visible tokens, -inf for others."""
    bias_RLS = torch.zeros_like(visible_RLS, dtype=dtype).masked_fill_(~visible_RLS, -math.inf)
    return bias_RLS[:, None]


def attention_weights(q_RHLK: Tensor, k_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    return (q_RHLK @ k_RHSK.mT + bias_R1LS).softmax(-1)


def attend_eager(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention by matrix products and a softmax."""
    return attention_weights(q_RHLK, k_RHSK, bias_R1LS) @ v_RHSK


def attend_sdpa(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention by PyTorch's fused kernel for any mask."""
    return F.scaled_dot_product_attention(q_RHLK, k_RHSK, v_RHSK, bias_R1LS, scale=1.0)  # scaled already


IMPLEMENTATIONS: dict[str, Attend] = {"cpu": attend_eager, "cuda": attend_sdpa}
"""The implementation for each type of device.

In rows of 64 tokens eager attention is several times faster on a CPU.  On a GPU the memory-efficient kernel
of SDPA is the only fused one that PyTorch documents for any mask and precision.  Attention takes a few
percent of the FLOPs in rows this short, and a kernel for ragged sequences would compute as many tiles.
"""


def last(stream: Iterator[Tensor]) -> Tensor:
    """Return the last tensor of a stream without holding the others."""
    return deque(stream, maxlen=1).pop()


def rotation_of(positions_RL: Tensor, sizes: config.Model, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the factors of rotary positions, which also scale the queries by 1 / sqrt(K).

    They are cosines and sines, each of shape (R, L, 1, 2, K / 2), for queries and keys.
    """
    head_width = sizes.width // sizes.heads
    # Not a buffer: casting the model to bf16 would round the frequencies.
    powers = torch.arange(0, head_width, 2, device=positions_RL.device) / head_width
    angles = positions_RL[:, :, None, None, None] / ROTARY_BASE**powers  # (R, L, 1, 1, K / 2), in fp32
    # Filled on the device: copying from the host would synchronize a GPU.
    scale = torch.ones(2, 1, device=positions_RL.device)
    scale[0] = head_width**-0.5
    return (angles.cos() * scale).to(dtype), (angles.sin() * scale).to(dtype)


class _Rotate(torch.autograd.Function):
    """Separate queries, keys and values, and rotate the pairs (k, k + K / 2) of queries and keys.

    The compiler turns a ``roll`` and the gradients of slices into loops over single elements. Halves, and a
    backward pass that writes the gradient at once, take a seventh less time for a whole block.
    """

    @staticmethod
    def forward(ctx: Any, qkv_RLH3K: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(cosine, sine)
        first, second = qkv_RLH3K[..., :2, :].chunk(2, -1)
        # Not addcmul, which takes four times as long in bf16 (log: Muon on flat tensors).
        both = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
        q_RLHK, k_RLHK = both.unbind(-2)
        return q_RLHK, k_RLHK, qkv_RLH3K[..., 2, :]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        q_RLHK, k_RLHK, v_RLHK = gradients
        parts = []
        for which, gradient in enumerate((q_RLHK, k_RLHK)):
            first, second = gradient.chunk(2, -1)
            c, s = cosine[..., which, :], sine[..., which, :]
            parts += [first * c + second * s, second * c - first * s]
        gradient_RLH3K = torch.cat((*parts, v_RLHK), -1).view(*v_RLHK.shape[:-1], 3, -1)
        return gradient_RLH3K, None, None


def attend_to_previous(model: GPT, heads: int) -> None:
    """Let heads of the first block start as previous-token heads.

    The first one attends to the previous token, the second one to the token before it, and so on.
    The biases of queries and keys do it alone. With frequencies f, the score of the token at a distance d is
    the sum of a² cos((d - i) f) / sqrt(K), which is largest at the distance i of the head.
    """
    attention = model.get_submodule("layers.0.attention")
    assert isinstance(attention, Attention)
    bias_H3K = attention.query_key_value.bias.data.view(attention.heads, 3, -1)
    head_width = bias_H3K.shape[-1]
    frequencies = ROTARY_BASE ** -(torch.arange(0, head_width, 2) / head_width)
    # A high frequency tells neighbors apart best.
    gap = (frequencies * (1 - frequencies.cos())).sum() / math.sqrt(head_width)
    amplitudes = (PREVIOUS_GAP / gap * frequencies).sqrt()
    for distance, (query, key, _) in enumerate(bias_H3K[:heads], start=1):
        angles = distance * frequencies
        query[: len(angles)] = amplitudes
        key[:] = torch.cat([amplitudes * angles.cos(), amplitudes * angles.sin()])


def initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_DEVIATION)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
