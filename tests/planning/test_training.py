"""Estimates of a training, and ``cadmus plan``."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import yaml
from click.testing import CliRunner
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from cadmus.cli.plan import plan as command
from cadmus.config import TEMPLATES, Model, load_config, parse_config
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.model.flops import parameter_count, training_flops
from cadmus.model.gpt import GPT
from cadmus.planning.training import DEVICES, average_program, compare_counts, plan, read_devices, read_gpu
from cadmus.planning.workflow import plan_workflow

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests/tiny.yaml"
SIZES = [(1, 8, 2, 5), (2, 32, 2, 64), (4, 128, 4, 512), (3, 96, 8, 100)]
DEVICE = {
    "counts": [1],
    "teraflops": 2,
    "peak_teraflops": 3,
    "fixed_ms_per_layer": 0,
    "usd_per_hour": 3,
    "source": "x",
}
CONFIGURED = re.compile(r"^cheapest +(.*)$", re.MULTILINE)


def config(**changes):
    values = {**load_config(TINY).model_dump(), **changes}
    return parse_config(values, "test")


def devices_file(directory, **devices):
    """Write a table of devices, each DEVICE with changes."""
    path = directory / "devices.yaml"
    path.write_text(yaml.safe_dump({name: {**DEVICE, **changes} for name, changes in devices.items()}))
    return path


def only(**templates):
    """Return the tiny config with only these templates."""
    values = load_config(TINY).model_dump()
    values["dataset"]["templates"] = templates
    return parse_config(values, "test")


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
    average = average_program(only(equality={"train": 10}))
    assert (average.tokens, average.pairs) == (5 + 5 + 1 + 1, 12 * 13 / 2)


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "random"])
def test_average_matches_sampled_programs(name):
    run = only(**{name: {"train": 2_000}})
    drawn = sample(run.dataset, run.seed, name, "train", 0, 2_000).programs.lengths.mean() + 1
    assert average_program(run).tokens == pytest.approx(drawn, rel=0.1)


def test_average_is_weighted_by_train_programs():
    apart = [average_program(only(**{name: {"train": 5}})).tokens for name in ("equality", "subroutines")]
    together = average_program(only(equality={"train": 30}, subroutines={"train": 10})).tokens
    assert together == pytest.approx((3 * apart[0] + apart[1]) / 4)


def test_the_plan_has_the_most_that_the_verdict_can_cost():
    fields = {"steps": 50, "batch_size": 40, "ranks": 2}
    verdict = {"fraction": 0.2, "questions": ["random"], "prompts": 6, "samples": 4}
    run = config(train={**fields, "verdict": verdict})
    average = average_program(run)
    more = plan(run).flops - plan(config(train=fields)).flops
    assert more == pytest.approx(4 / 3 * training_flops(run.model, 240 * average.tokens, 240 * average.pairs))


def test_plan_is_consistent():
    run = config(train={"steps": 50, "batch_size": 40, "ranks": 2})
    planned, average = plan(run), average_program(run)
    assert planned == plan(run), "the sample is the same every time"
    assert planned.programs == 4_100
    assert planned.trained_programs == 2_000
    assert planned.epochs == 2_000 / 4_100
    assert planned.trained_tokens == pytest.approx(2_000 * average.tokens, abs=1)
    assert planned.tokens == pytest.approx(4_100 * average.tokens, abs=1)
    assert planned.flops == training_flops(run.model, 2_000 * average.tokens, 2_000 * average.pairs)
    assert planned.dataset_bytes == pytest.approx((4_100 + 9 * (40 + 60)) * average.bytes, abs=1)
    for estimate in planned.estimates:
        device = estimate.device
        fixed = 50 * run.model.layers * device.fixed_ms_per_layer / 1000
        rate = device.count * device.teraflops * 1e12
        assert (estimate.hours * 3600 - fixed) * rate == pytest.approx(planned.flops)
        peak = device.count * device.peak_teraflops * 1e12
        assert estimate.mfu * estimate.hours * 3600 * peak == pytest.approx(planned.flops)
        assert estimate.usd == pytest.approx(estimate.hours * device.count * device.usd_per_hour)


def test_average_without_true_candidates():
    rare = only(random={"train": 5, "length": [60, 63]})
    assert 61 <= average_program(rare).tokens <= 64


CONFIGS = sorted([*(ROOT / "config").glob("*.yaml"), *(ROOT / "config/mixtures").glob("*.yaml")])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_plan_of_every_config(path, tmp_path):
    planned = plan(load_config(path))
    assert planned.estimates
    shown = CliRunner().invoke(command, [str(path)], catch_exceptions=False).stdout
    assert f"{planned.parameters:,} parameters" in shown
    assert len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 100
    assert ("on a cluster with H100" in shown) == (path.stem in ("h200", "paper"))
    assert "H200" not in shown


def rows(*arguments):
    """Return the devices that the command lists."""
    shown = CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False).stdout
    return [line.split("  ")[0] for line in shown.split("\n\n")[1].splitlines()[1:]], shown


def test_the_devices_are_those_of_the_scale():
    cpus = ["2 CPU cores", "2 CPU cores without bf16"]
    small, shown = rows(TINY)
    assert small == [*cpus, "H100"]
    assert shown.endswith("\n--all adds 7 rows of other devices, and the workflow on a cluster\n")
    large, shown = rows("paper")
    assert large == ["H100", "2 × H100", "4 × H100", "8 × H100"]
    assert shown.endswith(" USD\n\n--all adds 6 rows of other devices\n")
    # A GPU that was named is planned for.
    chosen, shown = rows(TINY, "--gpu", "H200")
    assert chosen == ["H200", "2 × H200", "4 × H200", "8 × H200"]
    assert "on a cluster with H200" in shown
    everything, shown = rows(TINY, "--all")
    assert everything == [*cpus, *large, *chosen]
    assert "on a cluster with H100" in shown
    assert "--all" not in shown


def hours_of(planned, name, count):
    (hours,) = (
        estimate.hours
        for estimate in planned.estimates
        if (estimate.device.name, estimate.device.count) == (name, count)
    )
    return hours


# Step times computed by hand from kernels, bytes and FLOPs of compiled blocks, within 15%.
@pytest.mark.parametrize(
    ("name", "device", "count", "ms"),
    [("paper", "H100", 8, 22), ("paper", "H200", 1, 80), ("h200", "H200", 1, 43)],
)
def test_step_time_on_gpus_matches_counted_kernels(name, device, count, ms):
    planned = plan(load_config(ROOT / f"config/{name}.yaml"))
    step = 3_600_000 * hours_of(planned, device, count) / planned.steps
    assert step == pytest.approx(ms, rel=0.15)


def test_fixed_time_does_not_depend_on_the_count(tmp_path):
    table = devices_file(tmp_path, A={"counts": [1, 1000], "teraflops": 1e-3, "fixed_ms_per_layer": 100})
    run = config(train={"steps": 50, "batch_size": 1000})
    planned = plan(run, table)
    fixed = 50 * run.model.layers * 0.1 / 3600
    assert hours_of(planned, "A", 1) - fixed == pytest.approx(1000 * (hours_of(planned, "A", 1000) - fixed))
    assert hours_of(planned, "A", 1000) > fixed


def test_counts_divide_the_batch():
    planned = plan(config(train={"steps": 50, "batch_size": 20, "micro_batch_size": 5}))
    counts = {e.device.name: [] for e in planned.estimates}
    for estimate in planned.estimates:
        counts[estimate.device.name].append(estimate.device.count)
    assert counts == {
        "2 CPU cores": [1],
        "2 CPU cores without bf16": [1],
        "H100": [1, 2, 4],
        "H200": [1, 2, 4],
    }


def test_auto_counts_as_one_gpu():
    planned = plan(config(train={"steps": 50, "batch_size": 40, "ranks": "auto"}))
    assert (planned.ranks, planned.gpus) == ("auto", 1)
    one = plan(config(train={"steps": 50, "batch_size": 40, "ranks": 1}))
    assert planned.estimates == one.estimates


def test_compare_counts(tmp_path):
    # A step takes 1 ms at least, and another 3 ms shared by the devices.
    run = config(train={"steps": 1000, "batch_size": 40, "ranks": 2})
    flops = plan(run).flops
    rate, fixed = flops / 3e12, 1 / run.model.layers
    table = devices_file(
        tmp_path, A={"counts": ["ranks", 1, 4], "teraflops": rate, "fixed_ms_per_layer": fixed}
    )
    choice = compare_counts(run, plan(run, table), read_gpu(table, 2))
    assert (choice.gpu, choice.cheapest, choice.configured) == ("A", 1, 2)
    assert choice.speedup == pytest.approx(4 / 2.5)
    assert choice.cost_ratio == pytest.approx(2 * 2.5 / 4)


@pytest.mark.parametrize(
    ("ranks", "line"),
    [
        ("8", r"1 × H100; the configured 8 are 1\.\dx faster and cost \d+% more"),
        ("1", "1 × H100, as configured"),
        ("auto", r"1 × H100, as configured \(ranks: auto counts as 1\)"),
    ],
)
def test_cheapest_count_is_printed(tmp_path, ranks, line):
    path = tmp_path / "config.yaml"
    path.write_text(TINY.read_text().replace("ranks: 1", f"ranks: {ranks}"))
    shown = CliRunner().invoke(command, [str(path), "--all"], catch_exceptions=False).stdout
    assert re.fullmatch(line, CONFIGURED.search(shown)[1])


def test_basis_column():
    shown = CliRunner().invoke(command, [str(TINY), "--all"], catch_exceptions=False).stdout
    basis = dict(re.findall(r"^(.*?)  .* (\S+)$", shown.split("\n\n")[1], re.MULTILINE))
    assert basis["8 × H100"] == "estimate"
    assert basis["2 CPU cores without bf16"] == "measured"


def test_laptop_model_is_smaller_than_8_mb():
    assert 4 * plan(load_config(ROOT / "config/laptop.yaml")).parameters < 7.9e6


def test_ranks_in_counts(tmp_path):
    table = devices_file(
        tmp_path, A={}, B={"counts": ["ranks", 8], "teraflops": 4, "peak_teraflops": 9, "usd_per_hour": 5}
    )
    counts = {ranks: [(d.name, d.count) for d in read_devices(table, ranks)] for ranks in (1, 4, 8)}
    assert counts == {
        1: [("A", 1), ("B", 1), ("B", 8)],
        4: [("A", 1), ("B", 4), ("B", 8)],
        8: [("A", 1), ("B", 8)],
    }
    (estimate,) = (e for e in plan(config(), table).estimates if e.device.count == 8)
    assert (estimate.device.teraflops, estimate.device.usd_per_hour) == (4, 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teraflops": "fast"}, "A.teraflops: must be a valid number, got 'fast'"),
        ({"usd_per_hour": float("nan")}, "A.usd_per_hour: must be a finite number, got nan"),
        ({"usd_per_hour": 0}, "A.usd_per_hour: must be greater than 0, got 0"),
        ({"teraflops": -2}, "A.teraflops: must be greater than 0, got -2"),
        ({"peak_teraflops": 0}, "A.peak_teraflops: must be greater than 0, got 0"),
        ({"fixed_ms_per_layer": -1}, "A.fixed_ms_per_layer: must be greater than or equal to 0, got -1"),
        ({"counts": [1.5]}, "A.counts: must be ranks or integers of at least 1, got 1.5"),
        ({"counts": [0]}, "A.counts: must be ranks or integers of at least 1, got 0"),
        ({"counts": [True]}, "A.counts: must be ranks or integers of at least 1, got True"),
        ({"counts": ["rank"]}, "A.counts: must be ranks or integers of at least 1, got 'rank'"),
        ({"counts": []}, "A.counts: must have at least 1 item after validation, not 0, got []"),
        ({"counts": "ranks"}, "A.counts: must be a valid list, got 'ranks'"),
        ({"counts": None}, "A.counts: must be a valid list, got None"),
        ({"mfu": 1}, "A.mfu: no such key; there are counts, teraflops"),
    ],
)
def test_bad_devices(tmp_path, changes, message):
    table = devices_file(tmp_path, A=changes)
    with pytest.raises(InputError) as error:
        plan(config(), table)
    assert str(error.value) == f"{table}: {message}" or str(error.value).startswith(f"{table}: {message}, ")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("devices.yaml", None, r"cannot read .*devices\.yaml: No such file"),
        ("devices.yaml", "", r"devices\.yaml: must be a mapping, got None"),
        (
            "devices.yaml",
            "A: {counts: [1]}",
            r"A\.teraflops: is missing \(and 4 more problems\)",
        ),
    ],
)
def test_bad_tables_of_devices(tmp_path, name, text, message):
    table = tmp_path / name
    if text is not None:
        table.write_text(text)
    with pytest.raises(InputError, match=message):
        plan(config(), table)


def test_max_length_below_every_program():
    values = load_config(TINY).model_dump()
    values["dataset"]["max_length"] = 5
    with pytest.raises(InputError, match=r"dataset.templates.equality: all of 8192 candidates have more"):
        plan(parse_config(values, "test"))


def test_json_output():
    shown = CliRunner().invoke(command, [str(TINY), "--json"], catch_exceptions=False).stdout
    found, run = json.loads(shown), load_config(TINY)
    workflow = asdict(plan_workflow(run, plan(run)))
    assert found.pop("workflow") == json.loads(json.dumps(workflow))
    assert found == json.loads(json.dumps(asdict(plan(run))))


def test_planning_does_not_import_torch():
    code = (
        "import sys; from cadmus.cli.main import cadmus; "
        f"cadmus({['plan', str(TINY)]!r}, standalone_mode=False); "
        "sys.exit(bool({'torch', 'deepspeed', 'polars', 'snakemake'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "parameters" in done.stdout


def test_shipped_devices():
    names = {device.name for device in read_devices(DEVICES, 1)}
    assert names == {"2 CPU cores", "2 CPU cores without bf16", "H100", "H200"}
