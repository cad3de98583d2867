"""Attribution: which training programs lower the loss on a test program, as methods predict from one model.

A score is positive if training on the program lowers the loss on the completion of the test program. The sum
over a subset of the training programs predicts how that loss differs between models trained on subsets.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from cadmus import isa
from cadmus.evaluate.questions import named, things_asked
from cadmus.model.inference import Cadmus, one_thread
from cadmus.programs import TOKEN_OF_BYTE, Samples
from cadmus.tools import generator, progress, seed_of

DIMENSIONS = 512
"""Dimensions to which TRAK projects gradients."""
RIDGE = 1e-3
"""Added to the diagonal of TRAK's kernel, relative to its mean: gradients may span fewer dimensions."""
_PROGRAMS_AT_ONCE = 256  # each has a gradient of the size of the model


@one_thread()  # the tensors of a program are small
def scores_of(model: Cadmus, test: Samples, train: Samples, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the scores of each method: float32, shape (test programs, training programs).

    TRAK (Park et al. 2023) has one model here, and as output of the model the odds of the completion, whose
    probability is that of a token on average (geometric mean). The gradient product is TracIn (Pruthi et al.
    2020) of the last step. The gradients of all test programs must fit into memory.
    """
    model.need_causal("attribution")
    test_loss_T, test_TP = (torch.cat(parts) for parts in zip(*_gradients(model, test), strict=True))
    torch_seed = torch.Generator().manual_seed(seed_of(seed, "projection") % 2**64)
    projection_PK = torch.randn(test_TP.shape[1], DIMENSIONS, generator=torch_seed).to(model.device)
    losses, products, projected = [], [], []
    for loss_N, gradient_NP in _gradients(model, train):
        losses.append(loss_N)
        products.append(test_TP @ gradient_NP.T)
        projected.append(gradient_NP @ projection_PK)
    loss_N = torch.cat(losses)
    trak_TN = _trak(test_TP @ projection_PK, test_loss_T, torch.cat(projected), loss_N)
    subject_T, subject_N = subjects_of(test), subjects_of(train)
    shape = len(test), len(train)
    scores = {
        "TRAK": trak_TN.cpu().numpy(),
        "gradient product": torch.cat(products, 1).cpu().numpy(),
        "same subject": subject_T[:, None] == subject_N,
        "training loss": np.broadcast_to(loss_N.cpu().numpy(), shape),
        "random": generator(seed, "random scores").normal(size=shape),
    }
    return {name: matrix.astype(np.float32) for name, matrix in scores.items()}


def subjects_of(samples: Samples) -> np.ndarray:
    """Return the template and the subject of each program: str, shape (n,)."""
    assert samples.template is not None
    subjects = np.empty(len(samples), object)
    for template in np.unique(samples.template):
        rows = np.flatnonzero(samples.template == template)
        part = samples.take(rows)
        texts = things_asked(named(template), part.programs, part.prompt_length.astype(np.int64))
        subjects[rows] = [f"{template} {text}" for text in texts]
    return subjects


def _gradients(model: Cadmus, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the losses of some programs, (N,), and their gradients, (N, P)."""
    # Of inference, so they have no gradients; these share their memory.
    weights = {name: weight.detach().requires_grad_() for name, weight in model.model.named_parameters()}
    bar = progress("gradients", total=len(samples), unit="program")
    with bar:
        for start in range(0, len(samples), _PROGRAMS_AT_ONCE):
            part = samples.take(np.arange(start, min(start + _PROGRAMS_AT_ONCE, len(samples))))
            losses, gradients = [], []
            for text, prompt in zip(part.programs.to_strings(), part.prompt_length.tolist(), strict=True):
                tokens = TOKEN_OF_BYTE[np.frombuffer((text + isa.END).encode(), np.uint8)].astype(np.int64)
                tokens_1L = torch.from_numpy(tokens).to(model.device)[None]
                positions_1L = torch.arange(len(text), device=model.device)[None]
                inputs = tokens_1L[:, :-1], positions_1L, torch.zeros_like(positions_1L)
                logits_1LV = functional_call(model.model, weights, inputs)
                # The last instruction of the prompt predicts the first one of the completion.
                loss = F.cross_entropy(logits_1LV[0, prompt - 1 :], tokens_1L[0, prompt:])
                losses.append(loss.detach())
                gradients.append(
                    torch.cat([g.ravel() for g in torch.autograd.grad(loss, [*weights.values()])])
                )
                bar.update()
            yield torch.stack(losses), torch.stack(gradients)


def _trak(test_TK: Tensor, test_loss_T: Tensor, train_NK: Tensor, train_loss_N: Tensor) -> Tensor:
    """Return the scores of TRAK from projected gradients of the losses, (T, N)."""
    # The gradient of the log odds is that of the log probability, divided by the probability of an error.
    test_error_T, error_N = ((1 - (-loss).exp()).clamp(min=1e-6) for loss in (test_loss_T, train_loss_N))
    features_NK = train_NK / error_N[:, None]
    kernel_KK = features_NK.T @ features_NK
    kernel_KK.diagonal().add_(RIDGE * kernel_KK.diagonal().mean())
    return test_TK / test_error_T[:, None] @ torch.linalg.solve(kernel_KK, features_NK.T) * error_N
