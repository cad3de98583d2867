"""The benchmarks behind ``cadmus bench``."""

import json
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch.utils.flop_counter import FlopCounterMode

from cadmus import isa
from cadmus.bench import Measured, dataset, decoding, probing, start, training
from cadmus.bench import programs as bench
from cadmus.cli.bench import bench as command
from cadmus.config import TEMPLATES, Model, Probe
from cadmus.errors import Defect, InputError
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from cadmus.programs import Programs
from tests.checkout import ROOT


@pytest.fixture(autouse=True)
def little(monkeypatch) -> None:
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(bench, "TEMPLATE_PROGRAMS", 200)


def invoke(*arguments: str) -> str:
    return CliRunner().invoke(command, arguments, catch_exceptions=False).stdout


def published(name: str) -> set[str]:
    """The keys of a published result."""
    return set(json.loads((ROOT / f"docs/results/bench_{name}.json").read_text()))


def test_results_are_a_table_or_one_flat_object(monkeypatch) -> None:
    measured = Measured({"repeats": 1_000}, {"fast": {"rate": 2_000, "ratio": 1.5}, "slow": {"rate": 3}})
    monkeypatch.setattr(start, "bench_start", lambda: measured)
    assert [line.split() for line in invoke("start").splitlines()] == [
        ["rate", "ratio"],
        ["fast", "2,000", "1.5"],
        ["slow", "3"],
        [],
        ["setting", "or", "result", "value"],
        ["repeats", "1,000"],
    ]
    expected = {"repeats": 1_000, "fast_rate": 2_000, "fast_ratio": 1.5, "slow_rate": 3}
    assert json.loads(invoke("start", "--json")) == expected


def test_vm_measures_both_vms() -> None:
    measured = json.loads(invoke("vm", "--json"))
    assert set(measured) == published("vm")
    for name in ("number", "mixture", "candidates"):
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        assert compiled > reference > 0
        assert measured[f"{name}_ratio"] == pytest.approx(compiled / reference, rel=0.01)
    assert measured["candidates_true_share"] == pytest.approx(0.289, abs=0.005)


def test_templates_measures_each_template() -> None:
    measured = json.loads(invoke("templates", "--json"))
    assert set(measured) == published("templates")
    for template in TEMPLATES:
        assert 0 < measured[f"{template}_kept_per_second"] <= measured[f"{template}_candidates_per_second"]


LITTLE_TRAINING = """
import json
from cadmus.bench import training
from cadmus.config import load_config
training.REPEATS, training.MATMUL = 1, 64
run = load_config("tests/tiny.yaml")
print(json.dumps(training.bench_train(run, 36).as_object()))
"""


def test_train_measures_every_way() -> None:
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


def test_batches_measures_the_loader() -> None:
    measured = json.loads(invoke("batches", "--programs", "3000", "--json"))
    assert set(measured) == published("batches")
    assert measured["programs"] == 3_000
    assert 0 < measured["milliseconds"] <= measured["longest_milliseconds"]


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


def test_a_way_of_training_that_fails_loses_only_its_own_keys() -> None:
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
    """What a step keeps."""


def failing_step(memory: Memory) -> None:
    raise RuntimeError("does not run")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_memory_of_a_way_that_fails_is_freed_before_the_next_step(monkeypatch, capsys, device) -> None:
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
def test_without_the_way_that_all_are_compared_with_there_is_no_benchmark(way) -> None:
    def start() -> None:
        raise ImportError("no such package\nat all")

    message = f"bench train: {way}: no such package at all; if memory is short, reduce --programs"
    with pytest.raises(InputError, match=f"^{message}$"):
        training._seconds({way: start}, torch.device("cpu"))


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


def test_the_operations_of_a_step_are_those_of_its_matrices() -> None:
    sizes = Model(layers=3, width=32, heads=2, mlp=96)
    programs = Programs.from_strings(["1", "34+7="])
    model = GPT(sizes)
    lengths = [2, 6]
    with FlopCounterMode(display=False) as counter:
        for length in lengths:
            row = torch.zeros(1, length, dtype=torch.long)
            model(row, torch.arange(length)[None], row).sum().backward()
    # Written out, attention computes what lies above the diagonal as well.
    above = sum(length * length - length * (length + 1) / 2 for length in lengths)
    attention = 6 * 2 * 3 * 32 * above
    assert counter.get_total_flops() == pytest.approx(training._operations(sizes, programs) + attention)


def test_probe_agrees_with_scikit_learn(monkeypatch, tmp_path) -> None:
    little = Probe(train_programs=1_000, validation_programs=200, test_programs=1_000)
    monkeypatch.setattr(
        probing, "SETTINGS", little.model_copy(update={"inverse_regularisation": [0.01, 0.1]})
    )
    sizes = Model(layers=1, width=16, heads=2, mlp=32)
    torch.manual_seed(0)
    save_export(GPT(sizes), sizes, tmp_path / "model", {})
    measured = json.loads(invoke("probe", str(tmp_path / "model"), "--json"))
    assert set(measured) == published("probe")
    assert (measured["tokens"], measured["width"], measured["regularisations"]) == (11, 16, 2)
    assert abs(measured["cadmus_accuracy"] - measured["scikit_learn_accuracy"]) < 0.005
    assert measured["ratio"] == pytest.approx(
        measured["scikit_learn_seconds"] / measured["cadmus_seconds"], rel=0.05
    )


@pytest.fixture
def hardly_any_time(monkeypatch):
    """Processes that take as long as they are said to."""

    def seconds(*arguments):
        if "manifest" in arguments:
            return 12.0
        if "-c" in arguments:
            return 5.0
        return 10.0 if "train" in arguments else 2.0

    monkeypatch.setattr(dataset, "_seconds", seconds)


def test_a_dataset_leaves_out_the_start(hardly_any_time) -> None:
    measured = json.loads(invoke("dataset", "--config", "tests/tiny.yaml", "--json"))
    assert (measured["start_seconds"], measured["start_torch_seconds"]) == (2, 5)
    # 800 programs in two shards and 300 in one; each shard takes 8 seconds after its start.
    assert measured["equality_per_second"] == 800 / 16
    assert measured["subroutines_per_second"] == round(300 / 8)
    assert measured["programs"] == 4_100 + 9 * 100
    assert measured["manifest_per_second"] == 5_000 / 10
    # Three templates have more than 600 programs for training.
    assert measured["seconds"] == 12 * 10 + 18 * 2 + 12
    assert set(measured) == published("dataset")


def test_a_dataset_too_small_to_measure_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(dataset, "_seconds", lambda *arguments: 2.0)
    with pytest.raises(InputError, match="measure a larger config"):
        dataset.bench_dataset(Path("tests/tiny.yaml"))


def test_a_process_that_fails_is_one_line() -> None:
    with pytest.raises(InputError, match="no such thing"):
        dataset._seconds("-c", "raise SystemExit('no such thing')")
    assert 0 < dataset._seconds("-c", "pass") < 5


def test_start_measures_each_process(monkeypatch) -> None:
    monkeypatch.setattr(start, "REPEATS", 1)
    measured = json.loads(invoke("start", "--json"))
    assert set(measured) == published("start")
    assert all(0 < measured[f"{name}_seconds"] < 10 for name in start.PROCESSES)


def test_a_process_that_does_not_start_is_no_measurement(monkeypatch) -> None:
    monkeypatch.setitem(start.PROCESSES, "run", ("-c", "raise SystemExit('no such thing')"))
    with pytest.raises(Defect, match="no such thing"):
        start.bench_start()
