"""The model card of an export."""

import json
import re
import shutil

import polars as pl
import pytest
import torch
from click.testing import CliRunner
from huggingface_hub import ModelCard

from cadmus import isa
from cadmus.cli.card import card as command
from cadmus.config import load_config
from cadmus.docgen import hub
from cadmus.docgen.model_card import model_card, write_model_card
from cadmus.errors import InputError
from cadmus.evaluate.results import write_results
from cadmus.model.export import read_metadata, save_export, weights_digest
from cadmus.model.gpt import GPT
from tests.checkout import ROOT

RUN = load_config(ROOT / "tests/tiny.yaml")
TRAINED = {
    "config": RUN.model_dump(),
    "data_digest": "da7ada7ada7ada7a",
    "steps": 20,
    "programs": 1_280,
    "tokens": 20_011,
    "flops": 1.234e9,
    "seconds": 3.5,
    "device": "cpu",
    "cores": 2,
}


@pytest.fixture
def place(tmp_path):
    """A directory with an untrained model and made-up results."""
    torch.manual_seed(0)
    save_export(GPT(RUN.model), RUN.model, tmp_path / "model", TRAINED)
    completions = pl.concat(
        pl.DataFrame(
            {
                "policy": [policy] * 50,
                "template": [question.partition("_")[0]] * 50,
                "question": [question] * 50,
                "asked": [f"{k}" for k in range(50)],
                "training_programs": [800] * 50,
                "solved": [k < (right if policy == "model" else 10) for k in range(50)],
                "fits": pl.Series([None] * 50, dtype=pl.Boolean),
                "exact": [k < right - 20 for k in range(50)],
                "next_token": [k < 25 for k in range(50)],
                "verified": [True] * 50,
            }
        )
        for policy in ("model", "ends_at_once", "constant")
        for question, right in (("equality", 49), ("equality_comparator", 30), ("random", 10))
    )
    origin = {
        "model_digest": weights_digest(tmp_path / "model"),
        "data_digest": TRAINED["data_digest"],
        "split": "test",
    }
    write_results(completions, tmp_path / "completions.parquet", origin)
    steps = [{"step": step, "loss": 4 - step / 10, "seconds": step / 4} for step in range(1, 21)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return tmp_path


def make(place):
    return model_card(place / "model", place / "completions.parquet", place / "metrics.jsonl")


def test_removed_fields_of_experiments_are_ignored(place):
    expected = make(place)
    path = place / "model/meta.json"
    noted = json.loads(path.read_text())
    noted["config"]["evaluate"]["probe"]["max_iterations"] = 9
    path.write_text(json.dumps(noted))
    assert make(place) == expected


def test_the_hub_reads_the_front_matter(place):
    card = ModelCard(make(place))
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.license == "mit"
    assert card.text.strip().startswith("# Cadmus, run tiny\n")
    assert card.text.rstrip().endswith(hub.CITATION.rstrip())
    assert "$" not in card.text
    told = {
        (result.dataset_config, result.dataset_name, result.metric_name): result
        for result in card.data.eval_results
    }
    assert len(told) == 3 * 4
    result = told["equality", "Cadmus, run tiny: equality", "Solved, comparator"]
    assert (result.task_type, result.metric_type, result.metric_value) == ("text-generation", "accuracy", 0.6)
    assert result.dataset_split == "test"
    assert told["random", "Cadmus, run tiny: random", "Exact"].metric_type == "exact_match"


def test_every_number_comes_from_a_file(place):
    text = make(place)
    model = read_metadata(place / "model")
    for line in (
        f"A decoder with {model['parameters']:,} parameters",
        "4,100 training programs (0.31 epochs)",
        "Compared values are in [-20, 20]",
        "- content: `da7ada7ada7ada7a`",
        f"- seed and section dataset: `{RUN.dataset_digest()}`",
        f"- weights: fp32, SHA-256 `{weights_digest(place / 'model')}…`",
        "- programs seen: 1,280",
        "- tokens seen: 20,011",
        "- FLOPs: 1.23e+09 ",
        "- time: 4 s on 2 CPU cores",
        "- speed: 5,717 tokens/s",
        "- last loss: 2.0000 nats per token, mean of the last 1 steps",
        f"commit `{model['commit']}`",
        "- optimizer: muon",
        f"- learning rate: {RUN.train.learning_rate}",
        "| equality | 50 | 98.0% [94.0, 100.0] | 100.0% | +78.0 [",
        "- Not above the best baseline: *random*, 20.0% [10.0, 32.0] solved, a gap of 0.0 [",
        "- Least above the best baseline: *equality, comparator*, 60.0% [46.0, 74.0] solved, a gap of +40.0",
        "- *equality, comparator*, the prompt ends before the comparator: it is the comparator",
        f"`{isa.digest()}`",
    ):
        assert line in text, line


def test_without_metrics_the_card_has_no_last_loss(place):
    text = model_card(place / "model", place / "completions.parquet", None)
    assert text == "".join(line for line in make(place).splitlines(True) if "last loss" not in line)


def test_rules_of_the_dataset_are_named(place):
    values = RUN.model_dump()
    values["dataset"]["ood"] = {"sevens": {"values": [7]}}
    _edit(place, config=values)
    assert "match the rules `sevens` were excluded as well" in make(place)


def test_the_example_of_the_card_runs(place, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", make(place), re.DOTALL)
    exec(code.replace("MODEL", str(place / "model")), {})
    assert capsys.readouterr().out.startswith("62*4+54*4-")


def _edit(place, **changes):
    path = place / "model/meta.json"
    noted = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in noted.items() if value is not None}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: shutil.rmtree(p / "model"), "is not a model export"),
        (lambda p: (p / "model/model.safetensors").unlink(), "missing or not readable"),
        (lambda p: _edit(p, isa_digest="0123"), "trained on instruction set 0123"),
        (lambda p: _edit(p, config=None), "meta.json: config: is missing"),
        (lambda p: _edit(p, versions=None), "meta.json: versions: is missing"),
        (lambda p: _edit(p, config={"name": "x"}), "meta.json: dataset: is missing"),
        (lambda p: _edit(p, steps=30), "metrics.jsonl: step: ends at 20, but the model was trained for 30"),
        (lambda p: (p / "metrics.jsonl").unlink(), "no such result file"),
        (lambda p: (p / "completions.parquet").write_text("no"), "not readable"),
        (lambda p: (p / "model/model.safetensors").write_bytes(b"other"), "evaluate again"),
        (
            lambda p: pl.read_parquet(p / "completions.parquet").write_parquet(p / "completions.parquet"),
            "model_digest: is None",
        ),
        (lambda p: _edit(p, data_digest="0ther"), "evaluate it on its own dataset"),
    ],
)
def test_files_that_do_not_match_are_one_line(place, damage, message):
    damage(place)
    with pytest.raises(InputError, match=message) as caught:
        write_model_card(
            place / "model", place / "completions.parquet", place / "metrics.jsonl", place / "a.md"
        )
    assert "\n" not in str(caught.value)
    assert not (place / "a.md").exists()


def test_the_command_writes_the_card(place):
    arguments = [str(place / "model"), "--completions", str(place / "completions.parquet")]
    arguments += ["--metrics", str(place / "metrics.jsonl")]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert (place / "model/README.md").read_text() == make(place)
    with pytest.raises(InputError, match=r"must end in .md"):
        CliRunner().invoke(
            command, [*arguments, "--output", str(place / "README.txt")], catch_exceptions=False
        )
