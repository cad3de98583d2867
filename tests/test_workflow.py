"""The full workflow with the tiny config, run by the command line in a copy of the checkout."""

import re
import shutil
from contextlib import contextmanager

import polars as pl
import pytest

from cadmus.config import OF_THE_PAPER, TEMPLATE_OF, load_config
from cadmus.dataset.shards import list_shards
from cadmus.evaluate.questions import title
from cadmus.model import FILES as MODEL_FILES
from cadmus.train.paths import step_of
from tests.checkout import ROOT, copy_checkout, jobs, snakemake

CONFIG = load_config(ROOT / "tests/tiny.yaml")
QUESTIONS = [name for name, template in TEMPLATE_OF.items() if template in OF_THE_PAPER]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the checkout with a finished tiny run."""
    directory = copy_checkout(tmp_path_factory.mktemp("checkout"))
    (directory / "printed").write_text(snakemake(directory))
    return directory


@pytest.fixture
def results(checkout):
    return checkout / "results/tiny"


def test_a_run_prints_a_line_per_job_its_accuracies_and_the_next_command(checkout):
    lines = (checkout / "printed").read_text().splitlines()
    assert len(lines) <= 150
    numbers = [re.fullmatch(r"[\d:]{8} +(\d+)/(\d+)  [a-z].*", line) for line in lines]
    started = [(int(found[1]), int(found[2])) for found in numbers if found]
    assert started == [(number, len(started)) for number in range(1, len(started) + 1)]
    assert sum(line.startswith(tuple(title(name) for name in QUESTIONS)) for line in lines) >= len(QUESTIONS)
    assert any(line.endswith("Next: cadmus explore --model results/tiny/model") for line in lines)


def test_snapshots_are_measured_on_the_validation_split(results):
    steps = pl.read_ndjson(results / "training/metrics.jsonl")
    measured = steps.drop_nulls("validation_loss")
    snapshots = (results / "training/snapshots").glob("step-*")
    assert measured["step"].to_list() == sorted(map(step_of, snapshots))
    assert measured["validation_solved"].is_between(0, 1).all()
    assert measured["validation_loss"][-1] < measured["validation_loss"][0]


def test_results_are_joined_with_the_dataset(checkout, results, monkeypatch):
    page = (ROOT / "docs/columns.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(checkout)
    names = {}
    exec(code.replace("NAME", results.name), names)
    joined = names["joined"]
    assert len(joined) == len(names["results"])
    compared = joined.filter(template="less_greater")
    assert len(compared)
    assert (compared["x"] != compared["y"]).all()


def test_the_experiments_are_complete(results):
    completions = pl.read_parquet(results / "experiments/completions.parquet")
    counts = dict(completions.filter(policy="model")["question"].value_counts().iter_rows())
    asked = CONFIG.evaluate.completions.programs
    assert set(counts) == set(QUESTIONS)
    # Some are not asked: definitions that are constant, expressions that look like copies, prompts that are
    # their own answers. Few random programs have a prompt that is not true yet.
    partly = {name: counts.pop(name) for name in ("equality", "random", "basic_sequences")}
    partly["subroutines"] = counts.pop("subroutines") + counts.pop("subroutines_definition")
    assert all(0 < count <= asked for count in partly.values())
    assert partly["random"] < asked / 2 < min(partly["equality"], partly["subroutines"])
    assert set(counts.values()) == {asked}
    sampled = pl.read_parquet(results / "experiments/pass_at_k.parquet")
    assert set(sampled["question"]) == set(completions["question"])


def test_the_model_directory_can_be_uploaded(results):
    assert {path.name for path in (results / "model").iterdir()} == {*MODEL_FILES, "README.md"}


@contextmanager
def kept(checkout):
    """Check that no file of the run changes."""

    def files():
        found = {path: path.stat() for path in (checkout / "results/tiny").rglob("*")}
        return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}

    before = files()
    yield
    assert files() == before


def test_a_code_change_reruns_only_its_dependents(checkout):
    def edited(*paths, ask=jobs):
        before = {file: file.read_text() for file in (checkout / path for path in paths)}
        for file, text in before.items():
            file.write_text(text + "\n# edited\n")
        try:
            return ask(checkout)
        finally:
            for file, text in before.items():
                file.write_text(text)

    # No job depends on the last.
    apart = ("figures/comparison_grid.py", "experiments/probe.py", "cli/main.py")
    of_each = {"draw_grid": 1, "experiment": 1, "draw_probe": 1}
    assert edited(*(f"cadmus/{path}" for path in apart)) == of_each
    template = edited("cadmus/templates/random.py")
    assert (template["shard"], template["held_out"]) == (1, 1)
    vm = edited("cadmus/vm/compiled.py")
    summary = edited("cadmus/experiments/probe.py", ask=lambda copy: snakemake(copy, "--summary"))
    changed = [line.split("\t")[0] for line in summary.splitlines() if "params changed" in line]
    assert changed == ["results/tiny/experiments/probe.parquet"]
    # As in a fresh clone, the files are newer than the results.
    assert jobs(checkout) == {}
    assert vm["shard"] == sum(shard.split == "train" for shard in list_shards(CONFIG))
    assert {"held_out", "manifest", "train", "experiment"} <= set(vm)


def test_a_config_change_reruns_only_its_dependents(checkout):
    assert jobs(checkout, "--config", 'evaluate={"completions": {"programs": 20}}') == {
        "config": 2,
        "baselines": 1,
        "experiment": 1,
        "draw_completions": 1,
        "draw_curve_completions": 1,
        "model_card": 1,
    }
    with kept(checkout):
        more_steps = jobs(checkout, "--config", 'train={"steps": 30}')
    assert more_steps["train"] == 1
    # Baselines do not depend on the model.
    assert {"shard", "baselines"}.isdisjoint(more_steps)


def test_what_a_run_does_not_use_reruns_nothing(checkout):
    """A later version may have another template, or field of the training."""
    added = checkout / "cadmus/templates/scalar_product.py"
    changes = {
        "dataset": ("    random: Random = Random()\n", "    scalar_product: Random = Random()\n"),
        "training": ("    weight_decay: NonNegative = 0.0\n", "    penalty: NonNegative = 0.0\n"),
    }
    files = {checkout / f"cadmus/config/{name}.py": lines for name, lines in changes.items()}
    before = {file: file.read_text() for file in files}
    try:
        added.write_text("from cadmus.templates.random import random as scalar_product\n")
        for file, (line, another) in files.items():
            assert line in before[file]
            file.write_text(before[file].replace(line, line + another))
        assert jobs(checkout) == {}
        # But the default of a field that is used counts.
        file.write_text(
            file.read_text().replace("weight_decay: NonNegative = 0.0", "weight_decay: NonNegative = 0.1")
        )
        planned = jobs(checkout)
        assert planned["train"] == 1
        assert "held_out" not in planned
    finally:
        added.unlink()
        for file, text in before.items():
            file.write_text(text)


def test_runs_with_equal_datasets_can_share_shards(checkout, results, tmp_path):
    def sampled(name, *changes):
        shard = f"results/{name}/dataset/data/train/random-0000.parquet"
        options = ("--cache", "shard", "--config", f"name={name}", *changes, "--", shard)
        snakemake(checkout, *options, SNAKEMAKE_OUTPUT_CACHE=str(tmp_path))
        return (checkout / shard).resolve()

    first = sampled("first")
    assert sampled("second", "train={steps: 10}") == first
    assert sampled("third", "seed=2") != first
    assert first.parent == tmp_path
    assert first.read_bytes() == (results / "dataset/data/train/random-0000.parquet").read_bytes()


@pytest.mark.parametrize("arguments", [["--dry-run", "--forceall"], ["--summary"]])
def test_commands_without_jobs_keep_the_results_and_import_little(checkout, tmp_path, arguments):
    """Only the commands of the jobs import packages that take seconds to load."""
    ours = ("deepspeed", "matplotlib", "numba", "sklearn", "torch")
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({ours}))\n"
    (tmp_path / "sitecustomize.py").write_text(blocked)
    with kept(checkout):
        snakemake(checkout, *arguments, "--config", "train={steps: 10}", PYTHONPATH=str(tmp_path))


def test_an_interrupted_generation_resumes_with_the_missing_shards(checkout, results):
    dataset = results / "dataset"
    shard = dataset / "data/train/random-0000.parquet"
    manifest = dataset / "manifest.json"
    held_out = [path for split in ("validation", "test") for path in (dataset / "data" / split).iterdir()]
    before = {path: path.read_bytes() for path in (shard, *held_out[:2], manifest)}
    for path in before:
        path.unlink()
    printed = snakemake(checkout, "--", str(manifest.relative_to(checkout)))
    started = re.findall(r"^[\d:]{8} +\d/3  (.*)$", printed, re.MULTILINE)
    assert sorted(started) == ["held out", "manifest", "shard train random 0000"]
    assert {path: path.read_bytes() for path in before} == before
    # The model is retrained only if the dataset changes.
    assert jobs(checkout) == {}
    manifest.write_text(manifest.read_text().replace('"name": "tiny"', '"name": "other"'))
    try:
        assert "train" in jobs(checkout)
    finally:
        manifest.write_bytes(before[manifest])


def test_results_from_elsewhere_are_accepted_as_they_are(checkout, results, tmp_path):
    directory = copy_checkout(tmp_path)
    copied = shutil.copytree(results, directory / "results/tiny", copy_function=shutil.copyfile)
    # The order of the copies is arbitrary.
    (copied / "dataset/manifest.json").touch()
    planned = snakemake(directory, "--dry-run")
    assert "rule train:" in planned
    snakemake(directory, "--touch")
    (copied / "figures/comparison_grid.pdf").unlink()
    assert jobs(directory) == {"draw_grid": 1}
