"""Tests that need a GPU, a part of ``make gpu-check``: attention, training and inference against the CPU.

They may run at the same time, and only that of the grid needs Polars. With ``GPU_TESTS=cpu``, a rehearsal,
they compare the CPU with itself.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cadmus import config, pipeline
from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import load_export
from cadmus.model.gpt import GPT, attend_eager, attend_sdpa
from cadmus.model.inference import Cadmus
from cadmus.train import NO_TARGET
from cadmus.train.packing import Drawn, PackedBatch, pack_batch
from dev.measure import PATIENCE, ROOT
from tests.model.models import random_programs
from tests.train.runs import SUPERVISED, assert_same_model, go_back, losses, metrics, run_config, write_config
from tests.train.test_golden_losses import GOLDEN, RUNS

GPU = torch.device(os.environ.get("GPU_TESTS", "cuda"))
if GPU.type == "cuda" and not torch.cuda.is_available():
    pytest.exit("needs a GPU", returncode=2)

SIZES = config.Model(layers=2, width=128, heads=2, mlp=512)
BF16_NOISE = 0.02
"""Relative difference of logits and gradients between bf16 and fp32."""
FP32_NOISE = 2e-3
"""Absolute difference of losses between CPU and GPU after ten steps in fp32."""
GRID_NOISE = 0.005
"""Difference of the in-distribution grid accuracy from the published one."""
RESUMED_NOISE = 5e-4
"""Absolute difference of losses between two bf16 runs on one GPU, whose sums have no fixed order."""


@pytest.fixture(scope="module", params=[64, 96])
def batch(request: pytest.FixtureRequest) -> PackedBatch:
    """Packed programs in rows of several lengths."""
    programs = random_programs(100, 4, 60)
    return pack_batch(Drawn.of(programs, np.ones(len(programs))), request.param)


def logits_and_gradients(model: GPT, batch: PackedBatch) -> list[torch.Tensor]:
    """Return the logits of all targets and the gradients of matrices; gradients of vectors are noisier."""
    device = model.embed_in.weight.device
    inputs = [tensor.to(device) for tensor in (batch.tokens, batch.positions, batch.segments)]
    targets = batch.targets.to(device)
    logits = model(*inputs).float()[targets != NO_TARGET]
    torch.nn.functional.cross_entropy(logits, targets[targets != NO_TARGET]).backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.ndim > 1]
    return [logits, *gradients]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("attend", [attend_eager, attend_sdpa])
def test_attention_implementations_match_eager(attend: Any, compiled: bool, batch: PackedBatch) -> None:
    torch.manual_seed(0)
    eager = GPT(SIZES).to(GPU)
    eager.attend = attend_eager
    expected = logits_and_gradients(eager, batch)
    torch.manual_seed(0)
    model = GPT(SIZES)
    model.attend = attend
    if compiled:
        model.compile_blocks()
    model = model.to(GPU, torch.bfloat16)
    for found, right in zip(logits_and_gradients(model, batch), expected, strict=True):
        assert (found.float() - right).norm() < BF16_NOISE * right.norm()


def train(directory: Path, **settings) -> None:
    write_config(directory, run_config(**settings))
    # DeepSpeed needs its own process.
    subprocess.run([sys.executable, "-m", "tests.train.worker", directory], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("run", RUNS)
def test_losses_match_the_cpu(tmp_path: Path, run: str) -> None:
    train(tmp_path, **RUNS[run])
    np.testing.assert_allclose(losses(tmp_path), json.loads(GOLDEN.read_text())[run], rtol=0, atol=FP32_NOISE)


def test_graphs_compute_what_steps_do(tmp_path: Path) -> None:
    found = []
    for graphs in (False, True):
        folder = tmp_path / str(graphs)
        train(folder, cuda_graph=graphs, **SUPERVISED, **RUNS["muon"])
        found.append([[step[name] for name in ("loss", "state_loss")] for step in metrics(folder)])
    np.testing.assert_allclose(*found, rtol=0, atol=FP32_NOISE)
    # On a CPU, it says that it needs a GPU.
    said = (folder / "log").read_text()
    assert ("train.cuda_graph" in said) == (GPU.type == "cpu"), said


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_bf16_training_resumes(tmp_path: Path, recipe: str) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, recipe=recipe)
    shutil.copytree(whole, parts)
    go_back(parts, 5)
    train(parts, recipe=recipe)
    assert losses(parts)[:5] == losses(whole)[:5]
    np.testing.assert_allclose(losses(parts), losses(whole), rtol=0, atol=RESUMED_NOISE)
    assert_same_model(parts, whole, 5e-3)


def test_the_shipped_model_matches_the_cpu() -> None:
    prompts = ["62*4+54*4-", "34+7", "12+0", "tb9b:", "\\9+;"] * 20
    on_cpu, on_gpu = Cadmus.load(), Cadmus.load(device=GPU)
    np.testing.assert_allclose(on_gpu.next_logits(prompts), on_cpu.next_logits(prompts), atol=1e-2)
    completions = [model.complete(prompts)[0].to_strings() for model in (on_cpu, on_gpu)]
    assert list(completions[0]) == list(completions[1])


def test_the_shipped_model_matches_the_cpu_in_bf16(batch: PackedBatch) -> None:
    wanted = batch.targets != NO_TARGET
    inputs = batch.tokens, batch.positions, batch.segments
    with torch.inference_mode():
        right = load_export(DEFAULT_MODEL)(*inputs)[wanted]
        model = load_export(DEFAULT_MODEL, GPU).to(torch.bfloat16)
        found = model(*(tensor.to(GPU) for tensor in inputs)).float().cpu()[wanted]
    assert (found - right).norm() < BF16_NOISE * right.norm()


def test_the_grid_accuracy_is_the_published_one(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    found = pipeline.evaluate("grid", DEFAULT_MODEL, tmp_path / "grid.parquet", device=GPU.type)
    published = polars.read_parquet(ROOT / "docs/models/laptop/comparison_grid.parquet")
    tables = [table.filter("in_distribution") for table in (found, published)]
    accuracies = [table["correct"].sum() / table["programs"].sum() for table in tables]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=GRID_NOISE)
