"""OOD rules: matches, the split ood, and rules that cannot be satisfied."""

import json
import shutil

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch

from cadmus import isa, pipeline
from cadmus.config import OOD, SPLITS, OODRule, parse_config
from cadmus.dataset import sampler
from cadmus.dataset.manifest import read_split, write_manifest
from cadmus.dataset.shards import list_shards, write_shard
from cadmus.dataset.splits import matches
from cadmus.errors import InputError
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from cadmus.programs import Programs, Samples
from tests.config.tiny import tiny

RULES = {
    "sevens": {"values": [7, [13, 15]]},
    "five_and_six": {"values": [[5, 6]], "compared": "both", "templates": ["equality", "less_greater"]},
    "long": {"length": [12, 63], "templates": ["apply_labels"]},
    "product_then_minus": {"contains": ["*-", "n"], "templates": ["equality"]},
}
SYMBOLS = "".join(symbol for symbol in isa.BY_SYMBOL if symbol != isa.END)


def config_with(rules, **dataset):
    return tiny(dataset={"ood": rules, "ood_programs": 60, **dataset})


def write(config, directory):
    pipeline.sample(config, directory)
    return pipeline.dataset(config, directory)


CONFIG = config_with(RULES)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dataset")
    write(CONFIG, directory)
    return directory


def is_excluded(template, program, x, y):
    """Apply ``RULES`` to one program."""
    return (
        any(value is not None and (value == 7 or 13 <= value <= 15) for value in (x, y))
        or (template in ("equality", "less_greater") and x in (5, 6) and y in (5, 6))
        or (template == "apply_labels" and len(program) >= 12)
        or (template == "equality" and ("*-" in program or "n" in program))
    )


@pytest.mark.parametrize("split", [*SPLITS, OOD])
def test_ood_has_exactly_what_the_rules_exclude(dataset, split):
    rows = pl.read_parquet(dataset / "data" / split / "*.parquet")
    assert len(rows) > 100
    excluded = [is_excluded(*row) for row in rows.select("template", "program", "x", "y").iter_rows()]
    assert set(excluded) == {split == OOD}


def test_ood_programs_are_distinct_and_not_in_train_or_validation(dataset):
    texts = {split: read_split(dataset, split).programs.to_strings() for split in (*SPLITS, OOD)}
    assert not set(texts[OOD]) & (set(texts["train"]) | set(texts["validation"]))
    assert len(set(texts[OOD])) > 0.9 * len(texts[OOD])


def test_excluded_programs_are_counted(dataset):
    manifest = json.loads((dataset / "manifest.json").read_text())
    assert list(manifest["ood"]) == list(RULES)
    assert set(manifest["ood"]["five_and_six"]) == {"equality", "less_greater"}
    assert min(manifest["ood"]["five_and_six"].values()) > 0
    assert manifest["splits"]["train"]["equality"]["ood"] > 0
    metadata = pq.read_metadata(dataset / "data/train/equality-0000.parquet").metadata[b"cadmus"]
    counts = json.loads(metadata)["counts"]
    outcomes = ("unfit", "too_long", "rejected", "other_split", "ood", "duplicates", "surplus", "kept")
    assert counts["sampled"] == sum(counts[outcome] for outcome in outcomes)


def test_without_rules_the_metadata_has_no_ood_counts(tmp_path):
    plain = tiny()
    assert {shard.split for shard in list_shards(plain)} == set(SPLITS)
    assert config_with({}).dataset_digest() == plain.dataset_digest() != CONFIG.dataset_digest()
    path = write_shard(plain, tmp_path, "random", "test", 0)
    assert b"ood" not in pq.read_metadata(path).metadata[b"cadmus"]


def samples_of(texts, x=None, y=None):
    return Samples(Programs.from_strings(texts), np.zeros(len(texts)), x, y)


def rewrite(source, target, other):
    """Write the programs of one shard as those of another, with as many rows, of another split."""
    programs, other = pq.read_table(source), pq.read_table(other)
    table = programs.set_column(0, other.schema.field("split"), other["split"])
    pq.write_table(table.replace_schema_metadata(other.schema.metadata), target)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (OOD, r"ood/equality-0000\.parquet: 60 programs match no rule of dataset\.ood"),
        ("test", r"test/equality-0000\.parquet: \d+ programs match dataset\.ood\.\w+"),
    ],
)
def test_rows_that_break_the_rules_are_refused(dataset, tmp_path, split, message):
    shutil.copytree(dataset, tmp_path, dirs_exist_ok=True)
    other = "test" if split == OOD else OOD
    name, source = "equality-0000.parquet", dataset / "data"
    rewrite(source / other / name, tmp_path / "data" / split / name, source / split / name)
    with pytest.raises(InputError, match=message):
        write_manifest(CONFIG, tmp_path)


def test_lengths_of_programs_and_of_prompts():
    rules = [OODRule(length=[3, 4]), OODRule(prompt_length=[1, 1])]
    samples = Samples(Programs.from_strings(["1", "123", "12345"]), np.array([1, 2, 1]))
    assert matches(rules, samples).tolist() == [[False, True, False], [True, False, True]]


def test_a_rule_without_a_prompt_length_keeps_its_digest():
    # Of the version before this field.
    assert CONFIG.dataset_digest() == "36e68cfc5b3c317a"
    assert config_with({"short": {"prompt_length": [1, 4]}}).dataset_digest() != CONFIG.dataset_digest()


def test_either_and_both():
    x, y = np.array([7, 7, 1, 9]), np.array([7, 1, 7, 8])
    rules = [OODRule(values=[7, [9, 10]], compared=compared) for compared in ("either", "both")]
    found = matches(rules, samples_of(["1"] * 4, x, y))
    assert found.tolist() == [[True, True, True, True], [True, False, False, False]]


@pytest.mark.parametrize(
    ("rule", "template", "split", "message"),
    [
        (
            {"length": [1, 63]},
            "basic_math",
            "train",
            r"dataset\.ood\.rule: the rule excludes \d+ true programs, too few are left: none of "
            r"the last \d+ candidates of template basic_math .*; narrow the rule",
        ),
        (
            {"contains": ["S"], "templates": ["equality"]},
            "equality",
            OOD,
            r"dataset\.ood\.rule: too few matches: none of .* template equality .*; widen the rule",
        ),
        (
            {"contains": ["98*7"], "templates": ["less_greater"]},
            "less_greater",
            OOD,
            r"dataset\.ood\.rule: too few matches: [1-6] of the last \d+ .* \([1-6] of 10 programs",
        ),
    ],
)
def test_sampling_stops_if_a_rule_excludes_all_or_nothing(rule, template, split, message):
    with pytest.raises(InputError, match=message) as caught:
        sampler.sample(config_with({"rule": rule}).dataset, 1, template, split, 0, 10)
    assert "\n" not in str(caught.value)


def test_sampling_stops_if_every_candidate_is_too_long():
    dataset = tiny(dataset={"max_length": 3}).dataset
    with pytest.raises(InputError, match=r"templates\.less_greater: none of the last \d+ candidates"):
        sampler.sample(dataset, 1, "less_greater", "train", 0, 10)


def test_a_rule_without_matches_is_an_error_in_the_manifest(tmp_path):
    templates = {"equality": {"train": 50}, "random": {"train": 5}}
    config = config_with({"never": {"values": [500]}}, templates=templates)
    with pytest.raises(InputError, match=r"dataset\.ood\.never: excludes nothing of any template: .* none"):
        write(config, tmp_path)
    assert not (tmp_path / "manifest.json").exists()


def test_the_manifest_describes_an_empty_split(tmp_path):
    templates = {"equality": {"train": 50}, "random": {"train": 5}}
    rules = {"sevens": {"values": [7]}}
    # The split ood is larger than any but train, and has no program of random.
    config = config_with(rules, templates=templates, validation=0, test=10, ood_programs=100)
    manifest = write(config, tmp_path)
    assert [*manifest["splits"]] == ["train", "validation", "test", "ood"]
    assert manifest["splits"]["validation"] == {}
    ood = manifest["splits"]["ood"]
    assert (ood["equality"]["distinct"], ood["random"]["distinct"]) == (100, 0)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "dataset.ood.rule: a rule has exactly one of values, length, prompt_length, contains and"),
        (
            {"values": [7], "templates": ["equality", "apply_labels"]},
            "rule.templates: apply_labels does not compare numbers; use basic_math, equality, le",
        ),
        ({"values": [[1, 2, 3]]}, "must be integers or intervals [low, high], got [1, 2, 3]"),
        ({"values": ["seven"]}, "must be integers or intervals [low, high], got 'seven'"),
        ({"values": [[2, 1]]}, "low 2 is above high 1"),
        ({"contains": ["*."]}, "must be instructions (see `cadmus isa`), got '*.'"),
        ({"length": [1, 2], "compared": "both"}, "compared: needs values"),
    ],
)
def test_invalid_rules_are_errors(rule, message):
    with pytest.raises(InputError) as caught:
        config_with({"rule": rule})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_evaluating_ood_programs_needs_rules():
    with pytest.raises(InputError, match=r"evaluate\.split: ood needs a rule in dataset\.ood"):
        tiny(evaluate={"split": OOD})
    assert tiny(evaluate={"split": OOD}, dataset={"ood": RULES})


def test_ood_programs_can_be_evaluated(dataset, tmp_path):
    torch.manual_seed(0)
    save_export(GPT(CONFIG.model), tmp_path / "model", {})
    output = tmp_path / "completions.parquet"
    config = parse_config({**CONFIG.model_dump(), "evaluate": {"split": OOD}}, "x.yaml")
    pipeline.evaluate("completions", tmp_path / "model", output, dataset, config)
    completions = pl.read_parquet(output).filter(policy="model")
    valued = {"basic_math", "equality", "equality_comparator", "less_greater"}
    valued |= {"subroutines", "subroutines_definition"}
    assert set(completions["question"]) == valued | {"apply_labels"}
    # Equality has two questions for each program, subroutines one of two. Nine definitions are long or ignore
    # an argument.
    counts = dict(completions["template"].value_counts().iter_rows())
    assert counts == {**dict.fromkeys(counts, 60), "equality": 2 * 60, "subroutines": 51}
