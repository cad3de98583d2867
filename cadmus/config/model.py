"""The ``model`` section."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cadmus.config.fields import Positive, Section


class Model(Section):
    """The decoder."""

    layers: Annotated[Positive, Field(le=1_000)]
    """transformer blocks"""
    width: Annotated[Positive, Field(le=100_000)]
    """embedding dimension"""
    heads: Positive
    """attention heads; a divisor of the width"""
    mlp: Annotated[Positive, Field(le=1_000_000)]
    """hidden size of the MLP"""
    tied: bool = False
    """tie the input and output embeddings"""
    activation: Literal["gelu", "relu2"] = "gelu"
    """activation of the MLP; `relu2` is the square of ReLU"""
    attention: Literal["causal", "full"] = "causal"
    """what a token attends to: itself and the earlier ones, or all tokens of the program, in a prompt those
    of the prompt"""

    @model_validator(mode="after")
    def _check(self) -> "Model":
        head_width, rest = divmod(self.width, self.heads)
        if rest:
            raise ValueError(f"heads: must divide width {self.width}, got {self.heads}")
        if head_width % 2:
            raise ValueError(f"heads: rotary positions need an even width per head, got {head_width}")
        return self
