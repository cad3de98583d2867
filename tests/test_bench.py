"""``cadmus bench``: what is measured and how it is printed."""

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
from cadmus.bench import dataset, decoding, probing, start, training
from cadmus.bench import programs as bench
from cadmus.cli.bench import bench as command
from cadmus.config import TEMPLATES, Model, Probe
from cadmus.errors import Defect, InputError
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from cadmus.programs import Programs


@pytest.fixture(autouse=True)
def little(monkeypatch) -> None:
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(bench, "TEMPLATE_PROGRAMS", 200)


def invoke(*arguments: str) -> str:
    return CliRunner().invoke(command, arguments, catch_exceptions=False).stdout


def test_vm_json_has_the_keys_of_its_help() -> None:
    measured, described = json.loads(invoke("vm", "--json")), invoke("vm", "--help")
    assert all(key in described for key in measured)
    assert all(isinstance(value, int | float) for value in measured.values()), "the object is flat"
    for name in ("number", "mixture", "candidates"):
        compiled, reference = (
            measured[f"{name}_compiled_per_second"],
            measured[f"{name}_reference_per_second"],
        )
        assert compiled > reference > 0
        assert measured[f"{name}_ratio"] == pytest.approx(compiled / reference, rel=0.01)
    assert measured["candidates_true_share"] == pytest.approx(0.289, abs=0.005)


def test_vm_prints_a_table_and_the_peers() -> None:
    lines = invoke("vm").splitlines()
    assert lines[0].split() == ["instructions/s", "compiled", "reference", "ratio"]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["number programs", "mixture", "candidates/s"]
    assert sum("measured elsewhere" in line for line in lines) == 2
    assert ["C", "switch", "1.5e+08"] in map(str.split, lines)


def test_templates_json_has_the_keys_of_its_help() -> None:
    measured, described = json.loads(invoke("templates", "--json")), invoke("templates", "--help")
    for template in TEMPLATES:
        assert 0 < measured[f"{template}_kept_per_second"] <= measured[f"{template}_candidates_per_second"]
    assert len(measured) == 2 + 2 * len(TEMPLATES)
    assert all(isinstance(value, int | float) for value in measured.values()), "the object is flat"
    for key in measured:
        generic = "TEMPLATE_" + "_".join(key.split("_")[-3:]) if key.startswith(TEMPLATES) else key
        assert generic in described


def test_templates_prints_a_table_and_the_peers() -> None:
    lines = invoke("templates").splitlines()
    assert lines[0].split() == ["programs/s", "kept", "candidates"]
    assert [line.split()[0] for line in lines[1 : 1 + len(TEMPLATES)]] == list(TEMPLATES)
    assert any(line.startswith("samples/s: measured elsewhere") for line in lines)


LITTLE_TRAINING = """
import json
from cadmus.bench import training
from cadmus.config import load_config
training.REPEATS, training.MATMUL = 1, 64
run = load_config("tests/tiny.yaml")
print(json.dumps(training.bench_train(run, 36)))
"""


def test_train_json_has_the_keys_of_its_help(monkeypatch) -> None:
    described = " ".join(invoke("train", "--help").split())
    # DeepSpeed wants a process of its own.
    done = subprocess.run([sys.executable, "-c", LITTLE_TRAINING], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    monkeypatch.setattr(training, "bench_train", lambda run, count: measured)
    assert json.loads(invoke("train", "--json")) == measured
    lines = invoke("train").splitlines()
    assert len(lines) == 1 + sum(key.endswith("_fill") for key in measured) + 2
    assert all(isinstance(value, int | float) for value in measured.values()), "the object is flat"
    ways = [key.removesuffix("_fill") for key in measured if key.endswith("_fill")]
    assert all(way in described for way in ways)
    on_gpu = {f"{name}_64" for name in training.forms(torch.device("cuda"))}
    assert {f"{name}_64" for name in training.forms(torch.device("cpu"))} < on_gpu
    assert all(way in described for way in on_gpu)
    for way in ways:
        assert measured[f"{way}_programs_per_second"] > 0
        assert 0 < measured[f"{way}_fill"] <= 1
    assert measured["padded_fill"] < measured["buckets_fill"] < measured["cadmus_fill"]
    kinds = {f"WAY_{kind}" for kind in ("tokens_per_second", "programs_per_second", "fill")}
    for key in measured:
        way = next((f"WAY{key.removeprefix(way)}" for way in ways if key.startswith(way)), key)
        generic = "cadmus_over_WAY" if key.startswith("cadmus_over_") else way if way in kinds else key
        assert generic in described, key


def test_batches_json_has_the_keys_of_its_help() -> None:
    measured = json.loads(invoke("batches", "--programs", "3000", "--json"))
    described = invoke("batches", "--help")
    assert all(key in described for key in measured)
    assert measured["programs"] == 3_000
    assert 0 < measured["milliseconds"] <= measured["longest_milliseconds"]
    assert "ms per batch of 1,024 among 3,000 programs" in invoke("batches", "--programs", "3000")


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
print(json.dumps(training.bench_train(load_config("tests/tiny.yaml"), 36)))
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
    assert {"cadmus_fill", "written_out_64_fill", "buckets_fill", "transformers_fp32_fill"} <= set(measured)
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


def test_decode_json_has_the_keys_of_its_help_and_both_ways_agree(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(decoding, "EACH", 3)
    monkeypatch.setattr(decoding, "REPEATS", 1)
    sizes = Model(layers=2, width=32, heads=2, mlp=64)
    torch.manual_seed(0)
    model = GPT(sizes)
    with torch.no_grad():
        # So that some completions end, after as many instructions as it happens.
        model.lm_head.weight[isa.END_ID] *= 30
    save_export(model, sizes, tmp_path / "model", {})
    measured = json.loads(invoke("decode", str(tmp_path / "model"), "--json"))
    described = " ".join(invoke("decode", "--help").split())
    assert all(key in described for key in measured)
    assert measured["programs"] == 27
    assert measured["same_completions"] == 1
    monkeypatch.setattr(decoding, "bench_decode", lambda directory: measured)
    assert "100.00% of 27 completions the same" in invoke("decode", str(tmp_path / "model"))


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


def test_probe_json_has_the_keys_of_its_help_and_both_ways_agree(monkeypatch, tmp_path) -> None:
    little = Probe(train_programs=1_000, validation_programs=200, test_programs=1_000)
    monkeypatch.setattr(
        probing, "SETTINGS", little.model_copy(update={"inverse_regularisation": [0.01, 0.1]})
    )
    sizes = Model(layers=1, width=16, heads=2, mlp=32)
    torch.manual_seed(0)
    save_export(GPT(sizes), sizes, tmp_path / "model", {})
    measured = json.loads(invoke("probe", str(tmp_path / "model"), "--json"))
    described = " ".join(invoke("probe", "--help").split())
    assert all(key in described for key in measured)
    assert all(isinstance(value, int | float) for value in measured.values()), "the object is flat"
    assert (measured["tokens"], measured["width"], measured["regularisations"]) == (11, 16, 2)
    assert abs(measured["cadmus_accuracy"] - measured["scikit_learn_accuracy"]) < 0.005
    assert measured["ratio"] == pytest.approx(
        measured["scikit_learn_seconds"] / measured["cadmus_seconds"], rel=0.05
    )
    monkeypatch.setattr(probing, "bench_probe", lambda directory: measured)
    assert invoke("probe", str(tmp_path / "model")).count("% right") == 2


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
    described = invoke("dataset", "--help")
    assert (measured["start_seconds"], measured["start_torch_seconds"]) == (2, 5)
    # 800 in two shards and 300 in one, each of which takes 8 seconds beside its start.
    assert measured["equality_per_second"] == 800 / 16
    assert measured["subroutines_per_second"] == round(300 / 8)
    assert measured["programs"] == 4_100 + 9 * 100
    assert measured["manifest_per_second"] == 5_000 / 10
    # Three templates have more than 600 programs for training.
    assert measured["seconds"] == 12 * 10 + 18 * 2 + 12
    assert all(key in described.replace("TEMPLATE", key.removesuffix("_per_second")) for key in measured)


def test_a_dataset_too_small_to_measure_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(dataset, "_seconds", lambda *arguments: 2.0)
    with pytest.raises(InputError, match="measure a larger one"):
        dataset.bench_dataset(Path("tests/tiny.yaml"))


def test_a_process_that_fails_is_one_line() -> None:
    with pytest.raises(InputError, match="no such thing"):
        dataset._seconds("-c", "raise SystemExit('no such thing')")
    assert 0 < dataset._seconds("-c", "pass") < 5


def test_start_json_has_the_keys_of_its_help(monkeypatch) -> None:
    monkeypatch.setattr(start, "REPEATS", 1)
    measured, described = json.loads(invoke("start", "--json")), invoke("start", "--help")
    assert all(key in described for key in measured)
    assert all(0 < measured[f"{name}_seconds"] < 10 for name in start.PROCESSES)
    monkeypatch.setattr(start, "bench_start", lambda: measured)
    assert [line.split()[0] for line in invoke("start").splitlines()] == [*start.PROCESSES, "median"]


def test_a_process_that_does_not_start_is_no_measurement(monkeypatch) -> None:
    monkeypatch.setitem(start.PROCESSES, "run", ("-c", "raise SystemExit('no such thing')"))
    with pytest.raises(Defect, match="no such thing"):
        start.bench_start()
