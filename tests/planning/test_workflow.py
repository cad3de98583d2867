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

TINY = ROOT / "tests/tiny.yaml"
LOCAL_RULES = {"dataset_report", "model_card", "figure", "table", "page", "llm_submit", "llm_collect"}
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


def tiny(**sections):
    """The tiny config with changes in its sections."""
    values = load_config(TINY).model_dump()
    for name, changes in sections.items():
        values[name] = {**values[name], **changes}
    return parse_config(values, "test")


def write(path, text):
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
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
    path.write_text(json.dumps({"CPU": device([1]), "A": device(["ranks"], teraflops, fixed, 72)}))
    return path


@pytest.fixture
def cluster(tmp_path, profile):
    def planned(run, flops, teraflops, chains, fixed=0):
        devices = devices_file(tmp_path / "devices.yaml", teraflops, fixed)
        return plan_cluster(
            run,
            replace(plan(run, devices), flops=flops),
            devices,
            rates_file(tmp_path / "rates.tsv"),
            profile(f"group-components: {{shards: {chains}}}\nset-threads: {{manifest: 4}}\n"),
        )

    return planned


SMALL = tiny(
    dataset={"templates": {"equality": {"train": 1_000}, "random": {"train": 100}}},
    model={"layers": 1, "width": 8, "heads": 2, "mlp": 5},
    train={"ranks": 2, "snapshots": 2},
)


def test_every_rule_of_the_workflow_is_a_job_of_the_cluster_or_local():
    texts = [path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk")]
    rules = set(re.findall(r"^rule (\w+):", "\n".join(texts), re.MULTILINE))
    assert rules == {*jobs(tiny(llm={"models": ["a"]}), 9), *LOCAL_RULES}


@pytest.mark.parametrize(("chains", "shard_jobs"), [(1, 27), (4, 7), (9, 3), (10, 3), (100, 1)])
def test_chains_share_jobs(chains, shard_jobs):
    found = jobs(load_config(TINY), chains)
    assert found.pop("shard") == shard_jobs
    rules = ["manifest", "train", "completions", "curve", "grid", "probe", "lens", "patch"]
    assert found == dict.fromkeys(rules, 1)


def test_large_language_models_are_two_jobs_more_and_two_local_ones():
    run, asked = load_config(TINY), tiny(llm={"models": ["a", "b"]})
    assert sum(jobs(asked, 9).values()) - sum(jobs(run, 9).values()) == 2
    assert local_jobs(asked) - local_jobs(run) == 2


# Seconds of the chains: 12, 11 (train), 1.4, 5 (validation), 1.6, 7 (test).
@pytest.mark.parametrize(("chains", "seconds"), [(1, 38), (4, 4 * 12 + 2 * 7), (6, 6 * 12)])
def test_a_job_holds_its_cores_until_the_longest_chain_ends(cluster, chains, seconds):
    stage = cluster(SMALL, 1e12, 1, chains).stages[0]
    assert (stage.rule, stage.cores, stage.gpus, stage.gpu_hours) == ("shard", 6, 0, 0)
    assert stage.cpu_hours * 3600 == pytest.approx(seconds)


def test_the_bill_and_the_overhead_by_hand(cluster):
    # So slow a GPU that a token takes a second, half of the rate being that of evaluation.
    found = cluster(SMALL, 2000 * PER_TOKEN, PER_TOKEN / 0.5 * 1e-12, chains=6)
    of_rule = {stage.rule: stage for stage in found.stages}
    # 1,300 programs; the start takes a second of four cores.
    assert of_rule["manifest"].cpu_hours * 3600 == pytest.approx(4 + 130)
    # The operations take two GPUs 500 seconds, the start 3.
    assert of_rule["train"].gpu_hours * 3600 == pytest.approx(2 * 503)
    assert of_rule["train"].gpus == 2
    # Pixels from -22 to 22, two programs of ten instructions each.
    assert of_rule["grid"].gpu_hours * 3600 == pytest.approx(3 + 45 * 45 * 2 * 10)
    assert of_rule["lens"].gpu_hours * 3600 == pytest.approx(3 + 2_000 * 11)
    # 20,000 programs are looked at; 2,000 pairs at two tokens and two layers, each once and a half.
    assert of_rule["patch"].gpu_hours * 3600 == pytest.approx(3 + 10 * (20_000 + 12_000))
    probe = 3 + 600 * 11 + regression_flops(SMALL) / (PER_TOKEN / 2)
    assert of_rule["probe"].gpu_hours * 3600 == pytest.approx(probe)

    assert found.cpu_hours * 3600 == pytest.approx(6 * 12 + 134)
    assert found.gpu_hours == pytest.approx(sum(stage.gpu_hours for stage in found.stages))
    # Nine seconds of six cores and four; of two GPUs and six.
    assert found.cpu_overhead == pytest.approx(9 * 10 / (72 + 134))
    assert found.gpu_overhead * found.gpu_hours * 3600 == pytest.approx(9 * 8)
    # A core takes 36 USD an hour, a GPU 72.
    work = 0.01 * (72 + 134) + 0.02 * found.gpu_hours * 3600
    assert found.usd == pytest.approx(work + 0.01 * 90 + 0.02 * 72)
    assert found.overhead == pytest.approx((0.01 * 90 + 0.02 * 72) / work)
    assert found.jobs == 9
    assert {stage.rule: stage.jobs for stage in found.stages} == jobs(SMALL, 6)


def test_the_training_has_the_time_of_the_plan(cluster):
    plans = [cluster(SMALL, 2000 * PER_TOKEN, PER_TOKEN / 0.5 * 1e-12, 6, fixed) for fixed in (0, 100)]
    hours = [stage.gpu_hours for found in plans for stage in found.stages if stage.rule == "train"]
    # Two GPUs, one layer.
    assert (hours[1] - hours[0]) * 3600 == pytest.approx(2 * SMALL.train.steps * 0.1)


# What a training of this model wrote, `meta.json` included.
@pytest.mark.parametrize(("recipe", "size"), [("paper", 38_339_076), ("fast", 25_754_149)])
def test_checkpoints_take_what_a_training_writes(recipe, size):
    values = load_config(TINY).model_dump()
    values["model"] = {"layers": 4, "width": 256, "heads": 4, "mlp": 1024}
    values["train"] = {"steps": 2, "batch_size": 32, "recipe": recipe}
    assert checkpoint_bytes(parse_config(values, "test")) == pytest.approx(size, rel=0.002)


def test_the_disk_by_hand(cluster):
    run = tiny(train={"recipe": "paper", "optimizer": "adam", "keep_checkpoints": 2, "snapshots": 2})
    found, parameters = cluster(run, 1, 1, 9), plan(run).parameters
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
    table.write_text(json.dumps({"CPU": device([1])}))
    with pytest.raises(InputError, match="no device has ranks in counts"):
        read_gpu(table, 8)
    assert read_gpu(DEVICES, 1).name == "H100"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: None, "cannot read the table of rates"),
        (lambda text: "what,rate\n", "the columns of a table of rates are what, rate, unit, source"),
        (lambda text: text.replace("equality\t100\t", "equality\tfast\t"), "equality: a number above 0"),
        (lambda text: text.replace("equality\t100\t", "equality\tnan\t"), "equality: a number above 0"),
        (lambda text: text.replace("equality\t100\t", "equality\t0\t"), "here, not '0'"),
        (lambda text: text.replace("job_overhead\t9\ts", "job_overhead\t9\tmin"), "is 's', not 'min'"),
        (lambda text: re.sub("job_overhead.*\n", "", text), "has no row 'job_overhead'"),
        (lambda text: text.replace("job_overhead", "overhead"), "'overhead' is none of the rates basic_math"),
        (lambda text: text.replace("job_overhead", "start"), "start.*(unit|twice)"),
        (lambda text: text.replace("\tby hand", "", 1), "has 3 cells, not 4"),
    ],
)
def test_a_wrong_table_of_rates_is_refused(tmp_path, change, message):
    table = rates_file(tmp_path / "rates.tsv")
    text = change(table.read_text())
    if text is None:
        table.unlink()
    else:
        table.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_rates(table)
    assert str(table) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1",
        "[]",
        "group-components: 9",
        "group-components: {other: 9}",
        "group-components: {shards: many}",
        "group-components: {shards: 0}",
        "group-components: {shards: true}",
    ],
)
def test_a_profile_without_its_numbers_is_refused(profile, text):
    threads = "set-threads: {manifest: 8}"
    with pytest.raises(InputError, match=r"config.yaml: group-components: {shards: N} should stand here"):
        read_profile(profile(text if text in ("", "[]") else f"{text}\n{threads}"))
    with pytest.raises(InputError, match=r"config.yaml: set-threads: {manifest: N} should stand here"):
        read_profile(profile("group-components: {shards: 9}"))


def test_a_profile_may_have_expressions(profile):
    text = (
        "executor: slurm\ngroup-components: {shards: 4}\ncores: ?threads * 2\n"
        "set-threads:\n  manifest: 8\n  ?for rule in [1]:\n    ?rule: 2\n"
    )
    assert read_profile(profile(text)) == (4, 8)


def test_a_missing_profile_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*config.yaml: No such file"):
        read_profile(tmp_path)


def test_the_shipped_rates_are_read():
    assert set(read_rates(RATES)) == set(UNITS)


def test_the_paper_takes_few_jobs_and_little_overhead():
    path = str(ROOT / "config/paper.yaml")
    shown = CliRunner().invoke(command, [path, "--json"], catch_exceptions=False).stdout
    found = json.loads(shown)["cluster"]
    assert found["gpu"] == "H100"
    assert found["jobs"] == 11
    assert found["overhead"] < 0.05
    published = json.loads((ROOT / "docs/results/plan_paper.json").read_text())["cluster"]
    assert published["usd"] == pytest.approx(found["usd"], rel=0.01), "run `cadmus plan` anew"


def test_the_page_has_the_numbers_of_the_published_plan():
    published = json.loads((ROOT / "docs/results/plan_paper.json").read_text())
    cluster, page = published["cluster"], (ROOT / "docs/cluster.md").read_text()
    disk = sum(cluster["disk_bytes"].values()) / 1e9
    assert (
        f"estimates {cluster['jobs']} jobs, {cluster['cpu_hours']:.2f} CPU-hours, "
        f"{cluster['gpu_hours']:.2f} GPU-hours, at most {disk:.0f} GB of disk and a\n"
        f"bill of {cluster['usd']:.0f} USD"
    ) in page
    rows = re.findall(r"^\| (\d)(?:, as configured)? \| ([\d.]+) \| (\d+) \| (\d+)% \|$", page, re.MULTILINE)
    assert rows == [
        (str(e["device"]["count"]), f"{e['hours']:.1f}", f"{e['usd']:.0f}", f"{100 * e['mfu']:.0f}")
        for e in published["estimates"]
        if e["device"]["name"] == "H100"
    ]
