"""Modules of one's own in the place of attention: what mixes the tokens of a program.

``model.mixer: my.module:Class`` names a class with ``__init__(width, heads)`` and ``forward(x_RLD,
visible_RLL)``, which returns (R, L, D). A row packs several programs: ``visible_RLL[r, t, s]`` is True if
token t may read token s. That is where both are of one program and s is not after t; the first token of a
program sees itself alone. :class:`GatedRecurrence` is an example.

Only :func:`admit` imports a class, for a config or an option of the user. A model from elsewhere names a
mixer too, and its code must not run unasked: :class:`cadmus.model.gpt.GPT` knows only :data:`MIXERS`.

Shape suffixes as in :mod:`cadmus.model.gpt`.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cadmus.config import OWN_MIXERS
from cadmus.errors import InputError

Mixer = Callable[[int, int], nn.Module]
"""Makes a module for a width and a number of heads."""


class GatedRecurrence(nn.Module):
    """Gated linear attention: a state that forgets, ``S_t = f_t S_(t-1) + k_t v_t``, read by queries.

    The gate f is a number per head and token. All states of a row are computed at once, with the products of
    the gates as a matrix (Yang et al. 2024, arXiv:2312.06635; Dao and Gu 2024, arXiv:2405.21060).
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.forget = nn.Linear(width, heads)
        self.norm = nn.LayerNorm(width // heads)
        self.dense = nn.Linear(width, width)

    def forward(self, x_RLD: Tensor, visible_RLL: Tensor) -> Tensor:
        qkv_RL3HK = self.query_key_value(x_RLD).unflatten(-1, (3, self.heads, -1))
        q_RHLK, k_RHLK, v_RHLK = qkv_RL3HK.permute(2, 0, 3, 1, 4)
        # Gates start near 1: 0.88 to 0.98 over the heads. Their sums need more than 16 bits.
        gate_RLH = self.forget(x_RLD) + torch.linspace(2.0, 4.0, self.heads, device=x_RLD.device)
        log_RHL = F.logsigmoid(gate_RLH).cumsum(1).transpose(1, 2)
        log_RHLL = log_RHL[..., :, None] - log_RHL[..., None, :]
        decay_RHLL = log_RHLL.masked_fill(~visible_RLL[:, None], -torch.inf).exp()
        scores_RHLL = q_RHLK @ k_RHLK.mT * decay_RHLL.to(x_RLD.dtype)
        return self.dense(self.norm(scores_RHLL @ v_RHLK).transpose(1, 2).flatten(2))


MIXERS: dict[str, Mixer] = dict(zip(OWN_MIXERS, [GatedRecurrence], strict=True))
"""Mixers by name: those of Cadmus, and those that the user named in this process."""


def admit(name: str) -> Mixer:
    """Import the class that the user named, which runs its module, and add it to :data:`MIXERS`."""
    if name not in MIXERS:
        module, _, attribute = name.partition(":")
        with _failures(name):
            mixer = getattr(importlib.import_module(module), attribute)
            if not (isinstance(mixer, type) and issubclass(mixer, nn.Module)):
                raise TypeError(f"{attribute} is not a class of torch.nn.Module")
        MIXERS[name] = mixer
    return MIXERS[name]


def known(name: str) -> Mixer:
    """Return one of :data:`MIXERS`."""
    if name not in MIXERS:
        problem = "is not of Cadmus, so its code does not run unasked"
        raise InputError(f"model.mixer: {name}: {problem}; if you trust it, name it: --mixer {name}")
    return MIXERS[name]


def build(name: str, mixer: Mixer, width: int, heads: int) -> nn.Module:
    """Return the module of a mixer."""
    with _failures(name):
        return mixer(width, heads)


def check(name: str, width: int, heads: int) -> None:
    """Check on random states that a mixer keeps their shape and reads no token that it may not."""
    mixer = build(name, admit(name), width, heads)
    length = 8
    program = torch.arange(length) // 5  # two programs, because a mixer may read another one
    visible = (program[:, None] == program).tril()[None]
    # In float64, where rounding is far below any gradient.
    x_RLD = torch.randn(1, length, width, dtype=torch.float64, requires_grad=True)
    with _failures(name):
        mixed = mixer.double()(x_RLD, visible)
        if mixed.shape != x_RLD.shape:
            raise InputError(f"model.mixer: {name}: returns shape {tuple(mixed.shape)} for {(*x_RLD.shape,)}")
        sums = mixed[0].sum(-1)
        gradients = [torch.autograd.grad(total, x_RLD, retain_graph=True)[0] for total in sums]
    for token, gradient in enumerate(gradients):
        sizes = gradient[0].abs().sum(-1)
        # Sums that cancel leave rounding.
        leaked = torch.nonzero((sizes > 1e-9 * sizes.max()) & ~visible[0, token])
        if len(leaked):
            raise InputError(
                f"model.mixer: {name}: token {token} reads token {leaked[0].item()}, which is later or of "
                "another program; mask it"
            )


def counts(name: str, width: int, heads: int) -> tuple[int, int]:
    """Return the numbers of parameters of a mixer in matrices and in all else."""
    mixer = admit(name)
    # Without memory, which large sizes could take all of.
    with torch.device("meta"):
        shapes = [parameter.shape for parameter in build(name, mixer, width, heads).parameters()]
    matrices = sum(shape.numel() for shape in shapes if len(shape) == 2)
    return matrices, sum(shape.numel() for shape in shapes) - matrices


@contextmanager
def _failures(name: str) -> Iterator[None]:
    """Report in one line whatever the code of a mixer raises."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a module may call exit() when it is imported
        wanted = "wanted a class that takes a width and heads, and states and a mask"
        raise InputError(f"model.mixer: {name}: {error or type(error).__name__}; {wanted}") from None
