"""The benchmark of greedy completion."""

import json

import torch

from cadmus import isa
from cadmus.bench import decoding
from cadmus.config import Model
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from tests.bench.conftest import invoke, published


def test_decode_agrees_with_transformers(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(decoding, "EACH", 3)
    monkeypatch.setattr(decoding, "REPEATS", 1)
    sizes = Model(layers=2, width=32, heads=2, mlp=64)
    torch.manual_seed(0)
    model = GPT(sizes)
    with torch.no_grad():
        # So that some completions end.
        model.lm_head.weight[isa.END_ID] *= 30
    save_export(model, sizes, tmp_path / "model", {})
    measured = json.loads(invoke("decode", str(tmp_path / "model"), "--json"))
    assert set(measured) == published("decode")
    assert measured["programs"] == 27
    assert measured["same_completions"] == 1
