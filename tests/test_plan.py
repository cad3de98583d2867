"""Estimates of runs, and ``cadmus plan``."""

import json
import re

import pytest
import torch
import yaml
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from cadmus.config import TEMPLATES, Model, load_config, parse_config
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.model.flops import parameter_count, training_flops
from cadmus.model.gpt import GPT
from cadmus.plan import average_program, checkpoint_bytes, plan
from tests.checkout import ROOT
from tests.commands import invoke, refused
from tests.config.tiny import TINY, tiny

SIZES = [(1, 8, 2, 5), (2, 32, 2, 64), (4, 128, 4, 512), (3, 96, 8, 100)]
DEVICE = {
    "counts": [1],
    "teraflops": 2,
    "peak_teraflops": 3,
    "fixed_ms_per_layer": 0,
    "usd_per_hour": 3,
    "source": "x",
}


def devices_file(directory, **devices):
    """Write a table of devices, each DEVICE with changes."""
    path = directory / "devices.yaml"
    path.write_text(yaml.safe_dump({name: {**DEVICE, **changes} for name, changes in devices.items()}))
    return path


def training(**fields):
    return tiny(train={"steps": 50, "batch_size": 40, **fields})


def only(**templates):
    """Return the tiny config with only these templates."""
    values = load_config(TINY).model_dump()
    values["dataset"]["templates"] = templates
    values["train"]["reinforcement"]["fraction"] = 0
    return parse_config(values, "test")


def average_of(run):
    return average_program(run.seed, run.dataset.model_dump_json())


def shown(*arguments):
    return invoke("plan", *arguments).stdout


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("layers", "width", "heads", "mlp"), SIZES)
def test_parameter_count_matches_the_model(layers, width, heads, mlp, tied):
    sizes = Model(layers=layers, width=width, heads=heads, mlp=mlp, tied=tied)
    model = GPT(sizes)
    assert parameter_count(sizes) == sum(parameter.numel() for parameter in model.parameters())
    matrices = sum(part.weight.numel() for part in model.modules() if isinstance(part, nn.Linear))
    assert training_flops(sizes, tokens=1, pairs=0) == 6 * matrices


def test_attention_flops_match_the_flop_counter():
    q, k, v = torch.randn(3, 4, 9, 16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        ((q @ k.mT).softmax(-1) @ v).sum().backward()
    sizes = Model(layers=1, width=4 * 16, heads=4, mlp=5)
    assert training_flops(sizes, tokens=0, pairs=9 * 9) == counter.get_total_flops()
    twice = sizes.model_copy(update={"layers": 2})
    assert training_flops(twice, tokens=0, pairs=7) == 2 * training_flops(sizes, tokens=0, pairs=7)


def test_average_of_programs_of_one_length():
    tokens, pairs = average_of(only(equality={"train": 10}))
    assert (tokens, pairs) == (5 + 5 + 1, 11 * 12 / 2)


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "random"])
def test_average_matches_sampled_programs(name):
    run = only(**{name: {"train": 2_000}})
    drawn = sample(run.dataset, run.seed, name, "train", 0, 2_000).programs.lengths.mean()
    assert average_of(run)[0] == pytest.approx(drawn, rel=0.1)


def test_average_without_true_candidates():
    rare = only(random={"train": 5, "length": [60, 63]})
    assert 60 <= average_of(rare)[0] <= 63


def test_max_length_below_every_program():
    with pytest.raises(InputError, match=r"dataset.templates.equality: all of 8192 candidates have more"):
        plan(tiny(dataset={"max_length": 5}))


def test_the_plan_has_the_most_that_reinforcement_can_cost():
    reinforcement = {"fraction": 0.2, "questions": ["random"], "prompts": 6, "samples": 4}
    run = training(ranks=2, reinforcement=reinforcement)
    tokens, pairs = average_of(run)
    more = plan(run)["flops"] - plan(training(ranks=2, reinforcement={"fraction": 0.0}))["flops"]
    assert more == pytest.approx(4 / 3 * training_flops(run.model, 240 * tokens, 240 * pairs))


def test_plan_is_consistent(tmp_path):
    run = training(ranks=2, reinforcement={"fraction": 0.0}, state_weight=0.0)
    device = {"counts": [1, 4], "teraflops": 2e-3, "peak_teraflops": 5e-3, "fixed_ms_per_layer": 7}
    table = devices_file(tmp_path, A=device)
    planned, (tokens, pairs) = plan(run, table), average_of(run)
    assert planned == plan(run, table), "the sample is the same every time"
    assert planned["programs"] == 3_500
    assert planned["trained_programs"] == 2_000
    assert planned["epochs"] == 2_000 / 3_500
    assert planned["trained_tokens"] == pytest.approx(2_000 * tokens, abs=1)
    assert planned["tokens"] == pytest.approx(3_500 * tokens, abs=1)
    assert planned["flops"] == training_flops(run.model, 2_000 * tokens, 2_000 * pairs)
    assert [estimate.count for estimate in planned["estimates"]] == [1, 4]
    for estimate in planned["estimates"]:
        seconds = 50 * run.model.layers * 0.007 + planned["flops"] / (estimate.count * 2e9)
        assert estimate.hours * 3600 == pytest.approx(seconds)
        assert estimate.mfu * seconds * estimate.count * 5e9 == pytest.approx(planned["flops"])
        assert estimate.usd == pytest.approx(estimate.hours * estimate.count * 3)
    waiting = plan(run, devices_file(tmp_path, A=device | {"host_ms_per_layer": 10**6}))["estimates"][0]
    assert waiting.hours * 3600 == pytest.approx(50 * run.model.layers * 1000)
    # Half of the steps draw up to as many tokens as a program may have.
    run = training(ranks=2, reinforcement={"fraction": 0.5})
    drawing = DEVICE | {"teraflops": 10**6, "sampling_ms_per_layer": 3}
    drawn = plan(run, devices_file(tmp_path, A=drawing))["estimates"][0].hours * 3600
    assert drawn == pytest.approx(25 * run.dataset.max_length * run.model.layers * 0.003)


# The sizes of these datasets on disk; that of `paper` (log: the paper's 80.2 million programs).
@pytest.mark.parametrize(("name", "size"), [("quick", 17_111_059), ("paper", 966_000_000)])
def test_the_size_of_a_dataset(name, size):
    planned = plan(load_config(ROOT / f"config/{name}.yaml"))["dataset_bytes"]
    assert planned == pytest.approx(size, rel=0.1)


# The size of a checkpoint of this model, `meta.json` included.
@pytest.mark.parametrize(("recipe", "size"), [("paper", 38_339_076), ("fast", 25_754_149)])
def test_the_size_of_a_checkpoint(recipe, size):
    values = load_config(TINY).model_dump()
    values["model"] = {"layers": 4, "width": 256, "heads": 4, "mlp": 1024}
    values["train"] = {"steps": 2, "batch_size": 32, "recipe": recipe}
    assert checkpoint_bytes(parse_config(values, "test")) == pytest.approx(size, rel=0.002)


# Peaks of all processes, measured on two cores with bf16.
@pytest.mark.parametrize(
    ("sizes", "peak"),
    [
        ({"layers": 4, "width": 128, "heads": 4, "mlp": 512}, 3_390_000_000),
        ({"layers": 12, "width": 768, "heads": 12, "mlp": 3072}, 8_050_000_000),
    ],
)
def test_the_memory_of_a_training_is_the_measured_one(sizes, peak):
    values = load_config(ROOT / "config/quick.yaml").model_dump()
    values["model"] |= sizes
    planned = plan(parse_config(values, "test"))["memory_bytes"]
    assert peak / 1.5 < planned < peak * 1.5


def hours_of(planned, name, count):
    (hours,) = (each.hours for each in planned["estimates"] if (each.device, each.count) == (name, count))
    return hours


# As measured there (log: the first minutes on a GPU).
@pytest.mark.parametrize(("name", "ms"), [("paper", 97.2), ("h200", 43.0)])
def test_step_time_on_a_gpu_is_the_measured_one(name, ms):
    run = load_config(ROOT / f"config/{name}.yaml")
    planned = plan(run)
    step = 3_600_000 * hours_of(planned, "H200", 1) / planned["steps"]
    # Then a program had one token more: its end was computed, too.
    tokens, _ = average_of(run)
    assert step == pytest.approx(ms * tokens / (tokens + 1), rel=0.06)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({"A": {"counts": ["rank"]}}, "A.counts.0: must be ranks or an integer of at least 1, got 'rank'"),
        ({}, "must have at least 1 item"),
    ],
)
def test_a_table_of_other_devices_is_an_error(tmp_path, devices, message):
    table = devices_file(tmp_path, **devices)
    with pytest.raises(InputError, match=f"^{table}: {message}"):
        plan(training(), table)


def test_the_table_has_all_devices_and_says_what_was_measured():
    text = shown(TINY)
    assert max(map(len, text.splitlines())) <= 100
    basis = re.findall(r"^(.*?)  .* (\S+)$", text.split("\n\n")[1], re.MULTILINE)[1:]
    assert [name for name, _ in basis[:2]] == ["2 CPU cores", "2 CPU cores with AMX"]
    assert len(basis) == len(plan(load_config(TINY))["estimates"])
    assert (dict(basis)["8 × H100"], dict(basis)["2 CPU cores"]) == ("estimate", "measured")


def test_a_study_is_an_error_that_says_what_to_plan():
    path = ROOT / "docs/findings/order/study.yaml"
    assert refused("plan", path).startswith(f"{path}: study: describes several runs; plan quick, with its ")


def test_docs_quote_the_published_plan():
    published = json.loads((ROOT / "docs/benchmarks/plan_paper.json").read_text())
    current = json.loads(shown("paper", "--json"))
    assert published["flops"] == pytest.approx(current["flops"], rel=0.01), "run `cadmus plan paper --json`"
    page = (ROOT / "docs/cluster.md").read_text()
    rows = re.findall(r"^\| (\d)(?:, as configured)? \| ([\d.]+) \| (\d+) \| (\d+)% \|$", page, re.MULTILINE)
    assert rows == [
        (str(each["count"]), f"{each['hours']:.1f}", f"{each['usd']:.0f}", f"{100 * each['mfu']:.0f}")
        for each in published["estimates"]
        if each["device"] == "H100"
    ]
    assert f"at most {sum(published['disk_bytes'].values()) / 1e9:.0f} GB of disk" in page
