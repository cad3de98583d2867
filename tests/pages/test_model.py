"""The model card of an export."""

import re

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from huggingface_hub import ModelCard

from cadmus import isa
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.model.export import read_metadata, save_export, weights_digest
from cadmus.model.gpt import GPT
from cadmus.pages import CITATION, LICENSE
from cadmus.pages.model import model_card
from cadmus.store import write_parquet
from tests.checkout import ROOT
from tests.commands import invoke, refused
from tests.evaluate.samples import completions_of

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


def export(directory, seed=0, **changes):
    torch.manual_seed(seed)
    noted = {key: value for key, value in {**TRAINED, **changes}.items() if value is not None}
    save_export(GPT(RUN.model), directory, noted)


@pytest.fixture
def place(tmp_path):
    """A directory with an untrained model and made-up results."""
    export(tmp_path / "model")
    number = np.arange(50)
    completions = pl.concat(
        completions_of(
            question,
            policy,
            number < (right if policy == "model" else 10),
            exact=number < right - 20,
            next_token=number < 25,
            verified=True,
        )
        for policy in ("model", "ends_at_once", "constant")
        for question, right in (("equality", 49), ("equality_comparator", 30), ("random", 10))
    )
    digests = {"model_digest": weights_digest(tmp_path / "model"), "data_digest": TRAINED["data_digest"]}
    origin = {**digests, "split": "test"}
    write_parquet(tmp_path / "completions.parquet", "results", completions, origin)
    return tmp_path


def make(place):
    return model_card(place / "model", place / "completions.parquet")


def test_the_hub_reads_the_front_matter(place):
    card = ModelCard(make(place))
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.license == "mit"
    assert card.text.strip().startswith("# Cadmus, run tiny\n")
    assert card.text.rstrip().endswith(CITATION.rstrip())
    assert "$" not in card.text


def test_every_number_comes_from_a_file(place):
    text = make(place)
    model = read_metadata(place / "model")
    for line in (
        f"A decoder with {model.parameters:,} parameters",
        "3,500 training programs (0.37 epochs)",
        "Compared values are in [-20, 20]",
        "- content: `da7ada7ada7ada7a`",
        f"- seed and section dataset: `{RUN.dataset_digest()}`",
        f"- weights: fp32, SHA-256 `{weights_digest(place / 'model')}…`",
        "- programs seen: 1,280",
        "- tokens seen: 20,011",
        "- FLOPs: 1.23e+09 ",
        "- time: 4 s on 2 CPU cores",
        "- speed: 5,717 tokens/s",
        f"commit `{model.cadmus.commit}`",
        "- optimizer: muon",
        f"- learning rate: {RUN.train.learning_rate}",
        "| equality | 50 | 98.0% [94.0, 100.0] | 100.0% | 100.0% | 20.0% (ends at once) | +78.0 [",
        "- *equality, comparator*, the prompt ends before the comparator: it is the comparator",
        f"`{isa.digest()}`",
    ):
        assert line in text, line


def test_rules_of_the_dataset_are_named(place):
    values = RUN.model_dump()
    values["dataset"]["ood"] = {"sevens": {"values": [7]}}
    export(place / "model", config=values)
    assert "match the rules `sevens` were excluded as well" in make(place)


def test_the_example_of_the_card_runs(place, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", make(place), re.DOTALL)
    exec(code.replace("MODEL", str(place / "model")), {})
    assert capsys.readouterr().out.startswith("62*4+54*4-")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": None}, "config: is missing; only models from `cadmus train` have cards"),
        ({"data_digest": "0ther"}, "data_digest: is da7ada7ada7ada7a, but that"),
        ({"seed": 1}, "model_digest: is .*, but that"),
    ],
)
def test_results_of_another_model_are_refused(place, change, message):
    export(place / "model", **change)
    with pytest.raises(InputError, match=message):
        make(place)


def test_the_command_writes_the_card(place):
    files = {"completions": place / "completions.parquet"}
    invoke("card", place / "model", **files)
    written = (place / "model/README.md").read_text()
    assert written.startswith(make(place).rstrip())
    assert written.count("made by cadmus card") == 1
    assert "must end in .md" in refused("card", place / "model", output=place / "README.txt", **files)


def test_the_citation_is_that_of_the_checkout():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    assert citation["license"].lower() == LICENSE
    authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    for text in (paper["title"], paper["journal"], paper["url"], str(paper["year"]), *authors):
        assert text in CITATION
