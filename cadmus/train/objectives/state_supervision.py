"""State supervision: the model also predicts the state of the VM after every token.

:mod:`cadmus.train.labels` has the labels, :class:`SupervisedGPT` the layers that predict them.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cadmus import config
from cadmus.model.gpt import GPT, initialize, last
from cadmus.train.batches import Batch, PackedBatch
from cadmus.train.interchange_training import SCALE, Exchange, exchanged, normalized
from cadmus.train.labels import CLASSES, NO_TARGET, columns, state_outputs
from cadmus.train.objectives.objective import Objective, Outputs, Setting


class StateSupervision(Objective):
    """Predicts the labels of each token, weighted by ``train.state_labels`` and ``train.state_weight``."""

    names = ("state_loss",)
    size = 1

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        train = setting.run.train
        self._weight = train.state_weight
        self._columns = torch.tensor(columns(train.state_labels), device=self.device)
        self._numbers = torch.tensor([*train.state_labels.numbers().values()], device=self.device)

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        assert packed.labels is not None
        sizes = [len(self._columns) * CLASSES, len(self._numbers)]
        logits, numbers = torch.split(outputs.state_logits, sizes, 1)
        losses = F.cross_entropy(
            logits.reshape(-1, CLASSES), packed.labels.flatten(), ignore_index=NO_TARGET, reduction="none"
        )
        total = (losses.view(len(logits), -1).sum(0) * self._columns).sum()
        if packed.numbers is not None:
            values = packed.numbers.flatten(0, 1)
            # Linear beyond an error of 1, and a tenth: as large as the losses of classes.
            errors = F.smooth_l1_loss(SCALE * numbers, values.nan_to_num(), reduction="none") / 10
            total = total + (errors.where(~values.isnan(), 0).sum(0) * self._numbers).sum()
        self.sums[0] += total.detach()
        return total * (self.ranks * self._weight / batch.tokens)

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        """Return the mean loss of the labels, those of a token summed by their weights."""
        return {"state_loss": sums[0] / batch.tokens}


OBJECTIVE = StateSupervision


class SupervisedGPT(GPT):
    """A GPT with linear layers that predict the labels of each token from the output of a block.

    ``lm_head_pair`` predicts the second number and the difference, ``lm_head_state`` all others.
    """

    def __init__(self, sizes: config.Model, train: config.Train) -> None:
        super().__init__(sizes)
        pair = [name for name in train.state_labels.numbers() if name != "magnitude"]
        self.state_layer = train.state_layer or max(1, sizes.layers - 2)
        self.pair_layer = train.pair_layer or max(1, sizes.layers - 1)
        self.lm_head_state = nn.Linear(sizes.width, state_outputs(train) - len(pair))
        self.lm_head_pair = nn.Linear(sizes.width, len(pair)) if pair else None
        self._interchange = train.interchange_training
        for head in filter(None, (self.lm_head_state, self.lm_head_pair)):
            initialize(head)

    def forward(
        self, tokens_RL: Tensor, positions_RL: Tensor, segments_RL: Tensor, *exchange: Tensor
    ) -> Tensor:
        """Return the logits of the next token, then what predicts the labels: shape (R, L, V + outputs).

        ``exchange`` are the fields of an :class:`Exchange`, which takes place after the labels are predicted.
        """
        predicted: dict[str, Tensor] = {}
        kept_layer, kept_CD = self._kept()

        def edit(layer: int, x_RLD: Tensor) -> Tensor:
            if layer == self.state_layer:
                predicted["state"] = self.lm_head_state(normalized(x_RLD))
            if layer == self.pair_layer and self.lm_head_pair is not None:
                predicted["pair"] = self.lm_head_pair(normalized(x_RLD))
            if exchange and layer == kept_layer and kept_CD is not None:
                return exchanged(x_RLD, kept_CD, self._interchange, Exchange(*exchange))
            return x_RLD

        x_RLD = last(self.residual_stream(tokens_RL, positions_RL, self.visible(segments_RL), edit=edit))
        # In this order, whichever layer comes first.
        outputs = [predicted[name] for name in ("state", "pair") if name in predicted]
        return torch.cat([self.logits(x_RLD), *outputs], -1)

    def _kept(self) -> tuple[int, Tensor | None]:
        """Return the layer where states are exchanged, and what reads the variable that they keep there."""
        if self._interchange.variable == "comparison":
            return self.pair_layer, None if self.lm_head_pair is None else self.lm_head_pair.weight
        # The magnitude is the last output of its layer.
        return self.state_layer, self.lm_head_state.weight[-1:]
