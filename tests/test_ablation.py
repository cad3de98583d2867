"""Training and comparison of variants of a config."""

import csv
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cadmus.ablation import _command, read_variants
from cadmus.cli.ablate import ablate
from cadmus.config import load_config
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.shards import plan
from cadmus.dataset.writer import write_shard
from cadmus.errors import InputError

ROOT = Path(__file__).parents[1]


def test_shipped_variants_are_valid():
    for path in (ROOT / "config/variants").glob("*.yaml"):
        assert read_variants(ROOT / "config/ablation.yaml", path)


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ("[]", "variants.yaml: must map names to changes"),
        ("a: {dataset: {test: 1}}", "a: must change fields of the sections model and train only"),
        ("a: {train: {step: 1}}", "a: train.step: no such key; did you mean 'steps'?"),
        ("a: 3", "a: must change fields"),
        ("a: {train: 3}", "a: must change fields"),
    ],
)
def test_invalid_variants_are_errors(tmp_path, variants, message):
    (tmp_path / "variants.yaml").write_text(variants)
    with pytest.raises(InputError) as caught:
        read_variants(ROOT / "config/ablation.yaml", tmp_path / "variants.yaml")
    assert message in str(caught.value)


def test_variants_are_trained_once_and_compared(tmp_path):
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text())
    values["dataset"]["templates"] = {"equality": {"train": 100}, "random": {"train": 20}}
    values["train"] |= {"steps": 3, "verdict": {"questions": ["equality"]}}
    base, variants, output = tmp_path / "base.yaml", tmp_path / "variants.yaml", tmp_path / "out.csv"
    base.write_text(yaml.safe_dump(values))
    config, data = load_config(base), tmp_path / "data"
    for shard in plan(config):
        write_shard(config, data, shard.template, shard.split, shard.number)
    write_manifest(config, data)

    def rows(**changes):
        variants.write_text(yaml.safe_dump(changes, sort_keys=False))
        paths = [base, variants, "--dataset", data, "--runs", tmp_path / "runs", "--output", output]
        done = CliRunner().invoke(ablate, [*map(str, paths), "--jobs", "2"], catch_exceptions=False)
        with output.open(newline="") as file:
            return done.output.splitlines(), list(csv.DictReader(file))

    lines, two = rows(tied={"model": {"tied": True}}, longer={"train": {"steps": 5, "seed": 4}})
    assert len(lines) == 2
    assert [row["variant"] for row in two] == ["tied", "longer"]
    assert int(two[0]["parameters"]) < int(two[1]["parameters"])
    assert 5 * int(two[0]["programs"]) == 3 * int(two[1]["programs"])
    assert float(two[0]["flops"]) < float(two[1]["flops"])
    assert 0 <= float(two[0]["next_token equality"]) <= 1
    lines, again = rows(tied={"model": {"tied": True}}, plain={})
    assert len(lines) == 1
    assert again[:2] == two
    assert again[2]["variant"] == "plain"
    with pytest.raises(InputError, match="tied: has the changes"):
        rows(tied={"model": {"tied": False}})


def test_a_failed_variant_is_an_error(tmp_path):
    (tmp_path / "variants.yaml").write_text("tied: {model: {tied: true}}")
    paths = [ROOT / "tests/tiny.yaml", tmp_path / "variants.yaml", "--dataset", tmp_path / "missing"]
    paths += ["--runs", tmp_path / "runs", "--output", tmp_path / "out.csv"]
    with pytest.raises(InputError) as raised:
        CliRunner().invoke(ablate, list(map(str, paths)), catch_exceptions=False)
    log = tmp_path / "runs/tied/train.log"
    assert str(raised.value).startswith("tied: ")
    assert "missing" in str(raised.value)
    assert str(raised.value).endswith(f"(more in {log})")
    assert log.read_text().count("\n") >= 1


def test_the_error_of_a_killed_variant_has_the_signal(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], -9))
    (tmp_path / "train.log").write_text("step 3/5, loss 4.1\n")
    with pytest.raises(InputError, match=r": ended by signal 9 \(more in .*train\.log\)$"):
        _command(tmp_path, "train", jobs=1)
