"""The workflow in other places than a checkout with results."""

import re
import shutil
import tomllib

import pytest
import yaml

from cadmus.config import load_config
from cadmus.distribution import NAME
from tests.checkout import ROOT, copy_checkout, snakemake
from tests.commands import python

CONFIG = load_config(ROOT / "tests/tiny.yaml")


def test_a_checkout_can_have_a_name_with_shell_syntax(tmp_path):
    directory = copy_checkout(tmp_path / "a $(touch pwned) `touch pwned` \"'%")
    table = "results/tiny/tables/table2_instructions.csv"
    snakemake(directory, "--", table)
    assert (directory / table).exists()
    assert not list(tmp_path.rglob("pwned"))
    braces = snakemake(directory.rename(tmp_path / "{run}"), "--dry-run", code=2)
    assert braces.splitlines()[-1].startswith(f"cadmus: error: {tmp_path}/{{run}}: Snakemake takes")


def test_the_conda_environment_has_the_required_packages():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = ("sample", "model", "train", "figures")
    optional = project["optional-dependencies"]
    required = sum((optional[extra] for extra in extras), project["dependencies"])
    needed = {re.match(r"[\w-]+", line)[0] for line in required} - {NAME}
    *listed, pip = yaml.safe_load((ROOT / "workflow/envs/cadmus.yaml").read_text())["dependencies"]
    installed = {re.match(r"[\w-]+", line)[0] for line in listed + pip["pip"]}
    assert needed - {"torch"} <= installed
    assert "pytorch" in installed


@pytest.mark.parametrize("prefix", ["", "below/"])
def test_another_workflow_can_use_it_as_a_module(tmp_path, prefix):
    (tmp_path / "Snakefile").write_text(f"""
module cadmus:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config
    {f'prefix: "{prefix}"' if prefix else ""}
use rule * from cadmus
""")
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/tiny.yaml", tmp_path / "tests")
    results = f"{prefix}results/tiny"
    made = [f"{results}/dataset/data/train/random-0000.parquet", f"{results}/tables/table2_instructions.csv"]
    if prefix:
        planned = snakemake(tmp_path, "--dry-run", PYTHONPATH="")
        assert not list(tmp_path.rglob("results"))
        assert " results/tiny" not in planned
    # For forced jobs, Snakemake evaluates params last.
    snakemake(tmp_path, "--forceall", "--", *made, PYTHONPATH="")
    assert all((tmp_path / path).exists() for path in made)
    assert load_config(tmp_path / results / "configs/shard.yaml").dataset == CONFIG.dataset


def outside(directory, *arguments):
    """Run the workflow of this checkout in another directory."""
    snakefile = ("--snakefile", str(ROOT / "workflow/Snakefile"))
    return python("-m", "snakemake", "--cores", 1, *snakefile, *arguments, cwd=directory)


def test_a_change_of_no_config_gives_a_one_line_error(tmp_path):
    done = outside(tmp_path, "--config", "name=mine")
    assert done.returncode == 2
    assert "cadmus: error: --config: changes no config; add --configfile config/quick.yaml" in done.stderr


def test_a_training_that_continues_no_model_gives_a_one_line_error(tmp_path):
    done = outside(tmp_path, "--configfile", ROOT / "docs/findings/beyond/study.yaml", "-n")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "\ncadmus: error: train.init: results/quick/model: no model there; train it first\n"
    )


def test_a_config_outside_the_checkout_can_extend_a_shipped_one(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: quick\nname: mine\ntrain: {steps: 3}\n")
    table = "results/mine/tables/table2_instructions.csv"
    done = outside(tmp_path, "--configfile", "mine.yaml", "--", table)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / table).exists()
    dry = outside(tmp_path, "-n", "-p", "--configfile", "mine.yaml")
    assert "results/mine/model/model.safetensors" in dry.stdout + dry.stderr
