"""`cadmus plan`: the whole workflow on a cluster."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from click.testing import CliRunner

from cadmus import experiments
from cadmus.cli.plan import plan as command
from cadmus.config import load_config, parse_config, read_model
from cadmus.config.templates import TEMPLATES
from cadmus.errors import InputError
from cadmus.planning.training import DEVICES, plan, read_gpu
from cadmus.planning.workflow import PROFILE, RATES, Profile, Rates, checkpoint_bytes, plan_workflow
from tests.checkout import ROOT
from tests.config.tiny import TINY, tiny

LOCAL_RULES = {
    "dataset_report",
    "model_card",
    "figure",
    "table",
    "page",
    "study",
    "study_page",
    "llm_submit",
    "llm_collect",
}
HAND = {
    "programs_per_second": {**dict.fromkeys(TEMPLATES, 1), "equality": 100, "random": 10},
    "manifest_programs_per_second": 10,
    "start_seconds": 1,
    "start_torch_seconds": 3,
    "evaluation_fraction": 0.5,
    "regression_fraction": 0.25,
}
PER_TOKEN = 2 * (4 * 8 * 8 + 2 * 8 * 5 + 65 * 8)
"""Operations per token in a model of one block, width 8 and an MLP of 5: two for each weight."""


def write(path, text):
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
    return path


def device(counts, teraflops=1, fixed=0, usd=1):
    return {
        "counts": counts,
        "teraflops": teraflops,
        "peak_teraflops": teraflops,
        "fixed_ms_per_layer": fixed,
        "usd_per_hour": usd,
        "source": "x",
    }


def devices_file(path, teraflops, fixed=0):
    return write(path, {"CPU": device([1]), "A": device(["ranks"], teraflops, fixed, 72)})


@pytest.fixture
def planned(tmp_path):
    """Plans a run of so many FLOPs with rates written by hand."""

    def plan_by_hand(run, flops, teraflops, chains, fixed=0):
        devices = devices_file(tmp_path / "devices.yaml", teraflops, fixed)
        profile = {"group-components": {"shards": chains}, "set-threads": {"manifest": 4}}
        return plan_workflow(
            run,
            replace(plan(run, devices), flops=flops),
            devices,
            write(tmp_path / "rates.yaml", HAND),
            write(tmp_path / "profile.yaml", profile),
        )

    return plan_by_hand


SMALL = tiny(
    dataset={"templates": {"equality": {"train": 1_000}, "random": {"train": 100}}},
    model={"layers": 1, "width": 8, "heads": 2, "mlp": 5},
    train={"ranks": 2, "snapshots": 2},
)


def test_every_rule_of_the_workflow_is_planned_or_local(planned):
    texts = [path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk")]
    rules = set(re.findall(r"^rule (\w+):", "\n".join(texts), re.MULTILINE))
    stages = {stage.name for stage in planned(SMALL, 1, 1, 9).stages}
    assert stages >= set(experiments.NAMES)
    assert rules == {*stages - set(experiments.NAMES), "experiment", "llm_prepare", "llm_score", *LOCAL_RULES}


@pytest.mark.parametrize(("chains", "jobs"), [(1, 27), (4, 7), (9, 3), (10, 3), (100, 1)])
def test_chains_share_jobs(planned, chains, jobs):
    stages = {stage.name: stage.jobs for stage in planned(load_config(TINY), 1, 1, chains).stages}
    assert stages.pop("shard") == jobs
    assert stages == dict.fromkeys(["manifest", "train", *experiments.NAMES], 1)


def test_language_models_are_two_jobs_more(planned):
    counts = [planned(tiny(llm={"models": models}), 1, 1, 9).jobs for models in ([], ["a", "b"])]
    assert counts[1] - counts[0] == 2


# Seconds of the chains: 12, 11 (train), 1.4, 5 (validation), 1.6, 7 (test).
@pytest.mark.parametrize(("chains", "seconds"), [(1, 38), (4, 4 * 12 + 2 * 7), (6, 6 * 12)])
def test_a_job_holds_its_cores_until_the_longest_chain_ends(planned, chains, seconds):
    stage = planned(SMALL, 1e12, 1, chains).stages[0]
    assert (stage.name, stage.gpu_hours) == ("shard", 0)
    assert stage.cpu_hours * 3600 == pytest.approx(seconds)


def test_the_hours_by_hand(planned):
    # A token takes a second in evaluation, at half of the training rate.
    found = planned(SMALL, 2000 * PER_TOKEN, PER_TOKEN / 0.5 * 1e-12, chains=6)
    stages = {stage.name: stage for stage in found.stages}
    # 1,300 programs; the start takes a second of four cores.
    assert stages["manifest"].cpu_hours * 3600 == pytest.approx(4 + 130)
    # The operations take two GPUs 500 seconds, the start 3.
    assert stages["train"].gpu_hours * 3600 == pytest.approx(2 * 503)
    # Pairs from -22 to 22, two programs of ten instructions each.
    assert stages["grid"].gpu_hours * 3600 == pytest.approx(3 + 45 * 45 * 2 * 10)
    assert stages["lens"].gpu_hours * 3600 == pytest.approx(3 + 2_000 * 11)
    # 20,000 programs are tried; 2,000 pairs at two tokens and two layers, each once and a half.
    assert stages["patch"].gpu_hours * 3600 == pytest.approx(3 + 10 * (20_000 + 12_000))
    regressions = experiments.get("probe").cost(SMALL, {}).flops
    seconds = 3 + 600 * 11 + regressions / (PER_TOKEN / 2)
    assert stages["probe"].gpu_hours * 3600 == pytest.approx(seconds)

    assert found.cpu_hours * 3600 == pytest.approx(6 * 12 + 134)
    assert found.gpu_hours == pytest.approx(sum(stage.gpu_hours for stage in found.stages))
    assert found.usd == pytest.approx(72 * found.gpu_hours)
    assert found.jobs == 11


def test_the_training_takes_the_time_of_its_plan(planned):
    plans = [planned(SMALL, 2000 * PER_TOKEN, PER_TOKEN / 0.5 * 1e-12, 6, fixed) for fixed in (0, 100)]
    hours = [stage.gpu_hours for found in plans for stage in found.stages if stage.name == "train"]
    # Two GPUs, one layer.
    assert (hours[1] - hours[0]) * 3600 == pytest.approx(2 * SMALL.train.steps * 0.1)


# The size of a checkpoint of this model, `meta.json` included.
@pytest.mark.parametrize(("recipe", "size"), [("paper", 38_339_076), ("fast", 25_754_149)])
def test_the_size_of_a_checkpoint(recipe, size):
    values = load_config(TINY).model_dump()
    values["model"] = {"layers": 4, "width": 256, "heads": 4, "mlp": 1024}
    values["train"] = {"steps": 2, "batch_size": 32, "recipe": recipe}
    assert checkpoint_bytes(parse_config(values, "test")) == pytest.approx(size, rel=0.002)


def test_the_disk_by_hand(planned):
    run = tiny(train={"recipe": "paper", "optimizer": "adam", "keep_checkpoints": 2, "snapshots": 2})
    found, parameters = planned(run, 1, 1, 9), plan(run).parameters
    assert found.disk_bytes == {
        "dataset": plan(run).dataset_bytes,
        "checkpoints": 3 * 12 * parameters,
        "snapshots": 2 * 4 * parameters,
        "export": 4 * parameters,
    }


def test_the_gpu_is_the_first_with_ranks_or_the_one_named(tmp_path):
    table = devices_file(tmp_path / "devices.yaml", 5)
    assert (read_gpu(table, 8).name, read_gpu(table, 8).count) == ("A", 8)
    assert (read_gpu(table, 8, "CPU").name, read_gpu(table, 8, "CPU").count) == ("CPU", 8)
    with pytest.raises(InputError, match="no device 'B'; there are CPU, A"):
        read_gpu(table, 8, "B")
    write(table, {"CPU": device([1])})
    with pytest.raises(InputError, match="no device has ranks in counts"):
        read_gpu(table, 8)
    assert read_gpu(DEVICES, 1).name == "H100"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("[]", "must be a mapping"),
        (
            {"manifest_programs_per_second": "fast"},
            "second: must be a valid number, got 'fast'",
        ),
        ({"manifest_programs_per_second": float("nan")}, "manifest_programs_per_second: must be a"),
        ({"start_seconds": 0}, "start_seconds: must be greater than 0, got 0"),
        ({"start_seconds": None}, "start_seconds: must be a valid number"),
        ({"start_second": 1}, "start_second: no such key; did you mean 'start_seconds'?"),
        (
            {"programs_per_second": {"equality": 0}},
            "programs_per_second.equality: must be greater than 0, got 0",
        ),
        ({"programs_per_second": {"equality": 1}}, "programs_per_second.basic_math: missing; add a rate"),
    ],
)
def test_wrong_rates_are_refused(tmp_path, change, message):
    rates = write(tmp_path / "rates.yaml", change if isinstance(change, str) else {**HAND, **change})
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        plan_workflow(SMALL, plan(SMALL), rates=rates)
    assert str(caught.value).startswith(f"{rates}: ")


def test_missing_rates_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*rates\.yaml"):
        plan_workflow(SMALL, plan(SMALL), rates=tmp_path / "rates.yaml")
    (tmp_path / "short.yaml").write_text("start_seconds: 1\n")
    with pytest.raises(InputError, match=r"programs_per_second: is missing \(and 4 more problems"):
        plan_workflow(SMALL, plan(SMALL), rates=tmp_path / "short.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "group-components: is missing"),
        ("[]", "must be a mapping"),
        ("group-components: 9", "group-components: must be a mapping"),
        ("group-components: {other: 9}", "group-components.shards: is missing"),
        ("group-components: {shards: many}", "group-components.shards: "),
        (
            "group-components: {shards: 0}",
            "group-components.shards: must be greater than or equal to 1, got 0",
        ),
        ("group-components: {shards: 9}", "set-threads: is missing"),
    ],
)
def test_a_profile_without_its_settings_is_refused(tmp_path, text, message):
    profile = write(tmp_path / "config.yaml", text)
    with pytest.raises(InputError, match=re.escape(f"config.yaml: {message}")):
        read_model(profile, Profile)


def test_a_profile_may_have_expressions(tmp_path):
    text = (
        "executor: slurm\ngroup-components: {shards: 4}\ncores: ?threads * 2\n"
        "set-threads:\n  manifest: 8\n  ?for rule in [1]:\n    ?rule: 2\n"
    )
    profile = read_model(write(tmp_path / "config.yaml", text), Profile)
    assert (profile.groups.shards, profile.threads.manifest) == (4, 8)


def test_the_shipped_rates_and_profile_are_valid():
    assert set(read_model(RATES, Rates).programs_per_second) == set(TEMPLATES)
    assert read_model(PROFILE, Profile).groups.shards == 9


def test_the_published_plan_is_current():
    shown = CliRunner().invoke(command, ["paper", "--json"], catch_exceptions=False).stdout
    found = json.loads(shown)["workflow"]
    assert found["gpu"] == "H100"
    assert found["jobs"] == 13
    published = json.loads((ROOT / "docs/results/plan_paper.json").read_text())["workflow"]
    assert published["usd"] == pytest.approx(found["usd"], rel=0.01), "run `cadmus plan paper --json` again"


def test_docs_quote_the_published_plan():
    published = json.loads((ROOT / "docs/results/plan_paper.json").read_text())
    cluster, page = published["workflow"], (ROOT / "docs/cluster.md").read_text()
    disk = sum(cluster["disk_bytes"].values()) / 1e9
    assert (
        f"estimates {cluster['jobs']} jobs, {cluster['cpu_hours']:.2f} CPU-hours, "
        f"{cluster['gpu_hours']:.2f} GPU-hours ({cluster['usd']:.0f} USD) and at most {disk:.0f} GB of disk"
    ) in page
    rows = re.findall(r"^\| (\d)(?:, as configured)? \| ([\d.]+) \| (\d+) \| (\d+)% \|$", page, re.MULTILINE)
    assert rows == [
        (str(e["device"]["count"]), f"{e['hours']:.1f}", f"{e['usd']:.0f}", f"{100 * e['mfu']:.0f}")
        for e in published["estimates"]
        if e["device"]["name"] == "H100"
    ]
