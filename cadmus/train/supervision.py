"""State supervision: during training the model also predicts the state of the VM after every token.

A linear layer on the output of one block predicts the labels of :mod:`cadmus.train.labels`. The export does
not have that layer.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cadmus import config, isa
from cadmus.model.gpt import GPT, INITIAL_DEVIATION
from cadmus.train.labels import CLASSES, NO_TARGET, state_outputs


class SupervisedGPT(GPT):
    """A GPT with a linear layer that predicts the label of each token from the output of one block.

    Args:
        sizes: sizes of the model.
        layer: block whose output predicts it, from 1.
        outputs: of that layer: classes of all labels of a token.
    """

    def __init__(self, sizes: config.Model, layer: int, outputs: int) -> None:
        super().__init__(sizes)
        self.state_layer = layer
        # DeepSpeed trains what is called lm_head with Adam, not Muon.
        self.lm_head_state = nn.Linear(sizes.width, outputs)
        nn.init.normal_(self.lm_head_state.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.lm_head_state.bias)

    def forward(self, tokens_RL: Tensor, positions_RL: Tensor, segments_RL: Tensor) -> Tensor:
        """Return the logits of the next token, then those of the labels: shape (R, L, V + outputs)."""
        visible_RLL = (segments_RL[:, :, None] == segments_RL[:, None, :]).tril()
        for layer, x_RLD in enumerate(self.residual_stream(tokens_RL, positions_RL, visible_RLL)):
            if layer == self.state_layer:
                state_RLC = self.lm_head_state(F.rms_norm(x_RLD, x_RLD.shape[-1:]))
        return torch.cat([self.logits(x_RLD), state_RLC], -1)


def training_model(sizes: config.Model, train: config.Train) -> GPT:
    """Return the model to train: with ``train.state_weight``, a :class:`SupervisedGPT`."""
    if not train.state_weight:
        return GPT(sizes)
    return SupervisedGPT(sizes, train.state_layer or max(1, sizes.layers - 2), state_outputs(train))


def state_loss(logits: Tensor, labels_RLC: Tensor, weights: list[float]) -> Tensor:
    """Return the sum of the cross-entropies of all labels.

    Args:
        logits: shape (R * L, columns * CLASSES), as :func:`split` returns them.
        labels_RLC: int64, one per column, or ``NO_TARGET``.
        weights: one per column.
    """
    losses = F.cross_entropy(
        logits.reshape(-1, CLASSES), labels_RLC.flatten(), ignore_index=NO_TARGET, reduction="none"
    )
    return (losses.view(-1, len(weights)).sum(0) * losses.new_tensor(weights)).sum()


def split(outputs_RLC: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits of the next token, and those of the labels, if any, by token: shape (R * L, ...)."""
    flat = outputs_RLC.float().flatten(0, 1)
    return flat[:, : isa.VOCABULARY_SIZE], flat[:, isa.VOCABULARY_SIZE :]
