"""Parameters and floating-point operations of the model, by formula; torch is not imported."""

from cadmus import isa
from cadmus.config import Model


def parameter_count(sizes: Model) -> int:
    """Parameters of :class:`cadmus.model.gpt.GPT`, by formula."""
    width, mlp = sizes.width, sizes.mlp
    biases = 3 * width + width + mlp + width
    layer_norms = 2 * 2 * width
    final_layer_norm = 2 * width
    return (
        embedding_count(sizes)
        + sizes.layers * (block_matrices(sizes) + biases + layer_norms)
        + final_layer_norm
    )


def training_flops(sizes: Model, tokens: float, pairs: float) -> float:
    """Floating-point operations of forward and backward passes, those of the model alone.

    6 · M · tokens + 12 · layers · width · pairs, where M counts the parameters of the matrices that every
    token is multiplied with: layers · (4 · width² + 2 · width · mlp) in the blocks, and vocabulary · width
    in the output.  A parameter takes a multiplication and an addition for each token, and twice that
    backward.  A pair of tokens takes 2 · width of them for the score and again for the weighted sum, in each
    layer.  Norms, the softmax, padding and the optimizer are left out.

    Args:
        sizes: of the model.
        tokens: all that are trained on, the ends included.
        pairs: of a token and one that it attends to, over all these tokens.
    """
    matrices = sizes.layers * block_matrices(sizes) + isa.VOCABULARY_SIZE * sizes.width
    return 6 * matrices * tokens + 12 * sizes.layers * sizes.width * pairs


def block_matrices(sizes: Model) -> int:
    """Parameters of the matrices of one block: query, key, value and output, and the two of the MLP."""
    return 4 * sizes.width**2 + 2 * sizes.width * sizes.mlp


def embedding_count(sizes: Model) -> int:
    """Parameters of the input and output embeddings."""
    return isa.VOCABULARY_SIZE * sizes.width * (1 if sizes.tied else 2)
