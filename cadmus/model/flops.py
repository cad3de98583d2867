"""Parameter count and FLOPs of the model by formula, without importing torch."""

import numpy as np

from cadmus import isa
from cadmus.config import Model


def parameter_count(sizes: Model) -> int:
    """Return the number of parameters of :class:`cadmus.model.gpt.GPT`."""
    biases, layer_norm = 5 * sizes.width + sizes.mlp, 2 * sizes.width
    block = block_matrices(sizes) + biases + 2 * layer_norm
    return embedding_count(sizes) + sizes.layers * block + layer_norm


def training_flops(sizes: Model, tokens: float, pairs: float, head_outputs: int = 0) -> float:
    """Return the model FLOPs of forward and backward passes: 6 · M · tokens + 12 · layers · width · pairs.

    M counts the parameters of the matrices: layers · (4 · width² + 2 · width · mlp) in the blocks, and
    vocabulary · width in the output.  A parameter takes two FLOPs per token forward and four backward.  In
    each layer a pair takes 2 · width FLOPs for its score and as many for the weighted sum.  Norms, softmax,
    padding and optimizer are not counted.
    ``pairs`` are as in :func:`causal_pairs`, ``head_outputs`` those of the heads of objectives.
    """
    outputs = isa.VOCABULARY_SIZE + head_outputs
    matrices = sizes.layers * block_matrices(sizes) + outputs * sizes.width
    return 6 * matrices * tokens + 12 * sizes.layers * sizes.width * pairs


def causal_pairs(tokens: np.ndarray) -> np.ndarray:
    """Return the pairs of a token and one that it attends to, itself included, in programs of ``tokens``."""
    return tokens * (tokens + 1) // 2  # of programs, not of packed rows: attention is within a program


def attended_pairs(attention: str, prompts: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the pairs of programs of ``tokens`` with an attention of :class:`cadmus.config.Model`."""
    if attention == "causal":
        return causal_pairs(tokens)
    # A prompt attends to itself alone.
    return prompts**2 + (tokens - prompts) * tokens


def block_matrices(sizes: Model) -> int:
    """Return the parameters in the matrices of a block: query, key, value, output and two of the MLP."""
    return 4 * sizes.width**2 + 2 * sizes.width * sizes.mlp


def embedding_count(sizes: Model) -> int:
    """Return the parameters of the input and output embeddings."""
    mask = sizes.attention == "full"
    return (isa.VOCABULARY_SIZE + mask) * sizes.width * (1 if sizes.tied else 2)
