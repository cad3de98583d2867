"""Muon on flat tensors against plain Muon and Adam, parameter by parameter."""

import pytest
import torch

from cadmus import config
from cadmus.model.gpt import GPT
from cadmus.train.muon import Muon, momentum_decay

SIZES = config.Model(layers=2, width=8, heads=2, mlp=32, tied=True)
TRAIN = config.Train(steps=1, learning_rate=1e-2, matrix_learning_rate=2e-2, weight_decay=0.1)


def model() -> GPT:
    torch.manual_seed(0)
    return GPT(SIZES)


def put_gradients(model: GPT, seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, dtype=torch.float32).to(parameter.dtype)


def train(model: GPT, optimizer: Muon) -> None:
    for step in range(3):
        put_gradients(model, step)
        optimizer.collect()
        for group in optimizer.param_groups:
            group["lr"] = TRAIN.matrix_learning_rate if group["use_muon"] else TRAIN.learning_rate
        optimizer.step()


def normuon_update(gradient: torch.Tensor, momentum: torch.Tensor, row_squares: torch.Tensor) -> torch.Tensor:
    """Return the update of a matrix, as in https://github.com/KellerJordan/Muon, with rows of one size."""
    momentum.lerp_(gradient, 0.05)
    x = gradient.lerp(momentum, 0.95)
    tall = len(x) > x.shape[1]
    x = x.mT if tall else x
    x = x / x.norm()
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    x = x.mT if tall else x
    row_squares.lerp_(x.square().mean(1, keepdim=True), 0.05)
    rows = x / row_squares.sqrt()
    return rows * x.norm() / rows.norm() * max(1, len(gradient) / gradient.shape[1]) ** 0.5


def test_steps_are_those_of_muon_and_adam_for_each_parameter():
    ours, theirs = model(), model()
    train(ours, Muon(ours, TRAIN))
    matrices = {name: each for name, each in theirs.named_parameters() if "layers" in name and each.ndim == 2}
    rest = [each for name, each in theirs.named_parameters() if name not in matrices]
    adam = torch.optim.AdamW(rest, TRAIN.learning_rate, TRAIN.betas, 1e-8, TRAIN.weight_decay)
    momenta = {name: torch.zeros_like(matrix) for name, matrix in matrices.items()}
    row_squares = {name: torch.zeros(len(matrix), 1) for name, matrix in matrices.items()}
    with torch.no_grad():
        for step in range(3):
            put_gradients(theirs, step)
            for name, matrix in matrices.items():
                update = normuon_update(matrix.grad, momenta[name], row_squares[name])
                matrix.mul_(1 - TRAIN.matrix_learning_rate * TRAIN.weight_decay)
                matrix.add_(update, alpha=-TRAIN.matrix_learning_rate)
            adam.step()
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(dict(ours.named_parameters())[name], parameter, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_ranks_orthogonalize_each_matrix_once(monkeypatch, ranks):
    """The parts of all ranks are what one rank computes."""
    flat = torch.randn(Muon(model(), TRAIN)._momentum.shape)
    whole = [found for _, found in Muon(model(), TRAIN)._orthogonalized(flat)]
    parts: list[torch.Tensor] = []
    monkeypatch.setattr(torch.distributed, "all_gather", lambda every, own: parts.append(own))
    for rank in range(ranks):
        list(Muon(model(), TRAIN, rank, ranks)._orthogonalized(flat))

    def all_gather(every: list[torch.Tensor], own: torch.Tensor) -> None:
        for part, found in zip(every, parts, strict=True):
            part.copy_(found)

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    gathered = [found for _, found in Muon(model(), TRAIN, 0, ranks)._orthogonalized(flat)]
    torch.testing.assert_close(gathered, whole, rtol=1e-5, atol=1e-6)


def test_the_momentum_forgets_faster_in_the_first_fifth_of_the_steps():
    assert [round(momentum_decay(done), 3) for done in (0.0, 0.1, 0.2, 1.0)] == [0.85, 0.9, 0.95, 0.95]


def test_micro_batches_are_summed_in_fp32_and_the_model_computes_in_bf16():
    gpt = model()
    optimizer = Muon(gpt, TRAIN)
    optimizer.cast(torch.bfloat16)
    assert {parameter.dtype for parameter in gpt.parameters()} == {torch.bfloat16}
    parameter = gpt.final_layer_norm.weight
    for value in (1.0, 2**-10):
        put_gradients(gpt, 0)
        parameter.grad.fill_(value)
        optimizer.collect()
    assert (optimizer._gradient == 1 + 2**-10).sum() >= parameter.numel(), "bf16 rounds this to 1"
    optimizer.step()
    torch.testing.assert_close(
        parameter.float(), optimizer.tensors["weight/final_layer_norm.weight"], atol=4e-3, rtol=0
    )
