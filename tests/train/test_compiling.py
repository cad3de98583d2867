"""Compiled blocks: for long trainings, and never a reason to fail."""

import os

import pytest
import torch

from cadmus import config
from cadmus.model.gpt import GPT
from cadmus.train import compiling
from tests.train.runs import run_config

CPU = torch.device("cpu")


@pytest.fixture
def run(monkeypatch) -> config.Config:
    monkeypatch.setattr(compiling, "WORTH", 0)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *of_one_rank: None)
    return config.parse_config(run_config(steps=1), "test")


def compiled(model: GPT) -> bool:
    return all(block._compiled_call_impl is not None for block in model.layers)


def test_short_trainings_are_not_compiled(run, monkeypatch):
    monkeypatch.setattr(compiling, "WORTH", 1e11)
    monkeypatch.setattr(GPT, "compile_blocks", None)
    assert compiling.compile_blocks(GPT(run.model), run, CPU) is None


def test_a_broken_compiler_is_one_line_and_the_blocks_run_eagerly(run, monkeypatch, tmp_path):
    torch._dynamo.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (None, "false"))
    model = GPT(run.model)
    problem = compiling.compile_blocks(model, run, CPU)
    assert problem is not None
    said = "the blocks are not compiled, which makes steps slower"
    assert problem.endswith(f"; {said}; delete {tmp_path}, in case it is damaged, and start again")
    assert "\n" not in problem
    assert not compiled(model)


def test_compiled_blocks_are_kept_for_the_next_training(run, monkeypatch, tmp_path):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compile_blocks = GPT.compile_blocks
    monkeypatch.setattr(GPT, "compile_blocks", lambda model: compile_blocks(model, "eager"))
    assert compiling.compile_blocks(GPT(run.model), run, CPU) is None
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == f"{tmp_path}/cadmus/compiled"
