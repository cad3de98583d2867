"""The benchmark of the training step."""

import json
import subprocess
import sys
import weakref
from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from cadmus.bench import training
from cadmus.config import Model
from cadmus.errors import InputError
from cadmus.model.gpt import GPT
from cadmus.programs import Programs
from tests.bench.conftest import invoke, published

LITTLE_TRAINING = """
import json
from cadmus.bench import training
from cadmus.config import load_config
training.REPEATS, training.MATMUL = 1, 64
run = load_config("tests/tiny.yaml")
print(json.dumps(training.bench_train(run, 36).as_object()))
"""


def test_every_way_is_measured() -> None:
    # DeepSpeed needs its own process.
    done = subprocess.run([sys.executable, "-c", LITTLE_TRAINING], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    assert set(measured) <= published("train") | {"bits"}
    described = " ".join(invoke("train", "--help").split())
    ways = [key.removesuffix("_fill") for key in measured if key.endswith("_fill")]
    on_cpu, on_gpu = (set(training.forms(torch.device(device))) for device in ("cpu", "cuda"))
    assert on_cpu < on_gpu
    assert {"cadmus", "padded", "transformers_fp32", *(f"{name}_64" for name in on_cpu)} <= set(ways)
    assert all(f"{name}_64" in described for name in on_gpu - {"fused_compiled"})
    for way in ways:
        assert measured[f"{way}_tokens_per_second"] > measured[f"{way}_programs_per_second"] > 0
        assert 0 < measured[f"{way}_fill"] <= 1
    assert measured["padded_fill"] < measured["cadmus_fill"]


FAILING_TRAINING = """
import json, sys
import torch
from cadmus.bench import training
from cadmus.config import load_config
training.REPEATS, training.MATMUL = 1, 64
engine_step, transformers_step = training._engine_step, training._transformers_step

def fails(*arguments):
    raise torch.OutOfMemoryError("out of memory;\\ntried to allocate 100 GB")

def building(sizes, device, of, *arguments):
    one_program_a_row = of.tokens.shape[0] == 36
    return (fails if one_program_a_row else transformers_step)(sizes, device, of, *arguments)

def running(sizes, device, of, *arguments):
    one_program_a_row = of.tokens.shape[0] == 36
    return fails if one_program_a_row else engine_step(sizes, device, of, *arguments)

training._transformers_step, training._engine_step = building, running
print(json.dumps(training.bench_train(load_config("tests/tiny.yaml"), 36).as_object()))
"""


def test_a_failed_way_has_no_keys() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING_TRAINING], capture_output=True, text=True, check=True
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    told = {line for line in done.stderr.splitlines() if line.startswith("bench train: ")}
    failing = {line.split(": ")[1] for line in told}
    assert {"padded", "transformers_padded_fp32"} <= failing
    assert told == {f"bench train: {way}: out of memory; tried to allocate 100 GB" for way in failing}
    assert not [
        key for key in measured if key.startswith((*failing, *(f"cadmus_over_{way}" for way in failing)))
    ]
    assert {"cadmus_fill", "written_out_64_fill", "transformers_fp32_fill"} <= set(measured)
    assert measured["cadmus_over_transformers_fp32"] > 0


class Memory:
    """Stands for the memory of a step."""


def failing_step(memory: Memory) -> None:
    raise RuntimeError("does not run")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_memory_of_a_failed_way_is_freed(monkeypatch, capsys, device) -> None:
    monkeypatch.setattr(training, "REPEATS", 2)
    monkeypatch.setattr(training, "_wait", lambda device: None)
    kept = []

    def start() -> partial:
        memory = Memory()
        kept.append(weakref.ref(memory))
        return partial(failing_step, memory)

    def other() -> None:
        assert kept[0]() is None

    starts = {"products": lambda: print, "failing": start, "other": lambda: other}
    assert set(training._seconds(starts, torch.device(device))) == {"products", "other"}
    assert capsys.readouterr().err == "bench train: failing: does not run\n"


@pytest.mark.parametrize("way", training.NEEDED)
def test_the_baselines_must_not_fail(way) -> None:
    def start() -> None:
        raise ImportError("no such package\nat all")

    message = f"bench train: {way}: no such package at all; if memory is short, reduce --programs"
    with pytest.raises(InputError, match=f"^{message}$"):
        training._seconds({way: start}, torch.device("cpu"))


def test_flops_match_the_flop_counter() -> None:
    sizes = Model(layers=3, width=32, heads=2, mlp=96)
    programs = Programs.from_strings(["1", "34+7="])
    model = GPT(sizes)
    lengths = [2, 6]
    with FlopCounterMode(display=False) as counter:
        for length in lengths:
            row = torch.zeros(1, length, dtype=torch.long)
            model(row, torch.arange(length)[None], row).sum().backward()
    # Eager attention also computes the scores above the diagonal.
    above = sum(length * length - length * (length + 1) / 2 for length in lengths)
    attention = 6 * 2 * 3 * 32 * above
    assert counter.get_total_flops() == pytest.approx(training._operations(sizes, programs) + attention)
