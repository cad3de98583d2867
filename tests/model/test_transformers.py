"""The shipped export in ``transformers``: batches, fine-tuning, models that it saves."""

import re
from itertools import islice

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
)

from cadmus import isa, tasks
from cadmus.config import TEMPLATES
from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import load_export
from cadmus.model.inference import Cadmus
from tests.checkout import ROOT

PROGRAMS = ["34+7=.", "62*4+54*4-=.", "u1b2b3b$6=."]
PROMPTS = [program[:-2] for program in PROGRAMS]


@pytest.fixture(scope="module")
def theirs():
    return AutoModelForCausalLM.from_pretrained(DEFAULT_MODEL)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(DEFAULT_MODEL)


def test_a_padded_batch_with_defaults_is_completed_as_by_us(theirs, tokenizer):
    per_template = (islice(tasks(template, "test", seed=1), 23) for template in TEMPLATES)
    prompts = [task.prompt for tasks in per_template for task in tasks][:200]
    completions, ended = Cadmus.load().complete(prompts)
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    texts = tokenizer.batch_decode(theirs.generate(**batch), skip_special_tokens=True)
    expected = [p + completion for p, completion in zip(prompts, completions.to_strings(), strict=True)]
    assert len(prompts) == 200
    assert len(set(map(len, prompts))) > 10
    assert ended.all()
    assert texts == expected


@pytest.mark.parametrize("text", ["34+7 ", "34+7\n", "é"])
def test_a_character_that_is_no_instruction_raises(tokenizer, text):
    with pytest.raises(Exception, match=r"Missing \[UNK\] token"):
        tokenizer(text)


def _save(model, tokenizer, directory):
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def test_a_model_saved_by_transformers_loads(theirs, tokenizer, tmp_path):
    _save(theirs, tokenizer, tmp_path)
    ours, saved = Cadmus.load(), Cadmus.load(tmp_path)
    assert not (tmp_path / "meta.json").exists()
    assert (saved.sizes, saved.max_length) == (ours.sizes, ours.max_length)
    assert np.array_equal(saved.next_logits(PROMPTS), ours.next_logits(PROMPTS))


def test_random_models_saved_by_transformers_load(exported, tmp_path):
    model, directory = exported
    _save(AutoModelForCausalLM.from_pretrained(directory), AutoTokenizer.from_pretrained(directory), tmp_path)
    loaded = load_export(tmp_path)
    assert loaded.sizes == model.sizes
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name


def test_padded_labels_keep_the_end(tokenizer):
    rows = [tokenizer(program) for program in PROGRAMS]
    batch = DataCollatorForSeq2Seq(tokenizer)([{**row, "labels": row["input_ids"]} for row in rows])
    assert (batch["labels"] == isa.END_ID).sum(-1).tolist() == [1, 1, 1]
    assert torch.equal(batch["labels"] != -100, batch["attention_mask"] == 1)
    masked = DataCollatorForLanguageModeling(tokenizer, mlm=False)(rows)
    assert not (masked["labels"] == isa.END_ID).any()


def test_the_fine_tuning_of_the_page_gains_what_it_shows_and_forgets_nothing(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs/integrations.md").read_text(encoding="utf-8")
    section = page.split("## Fine-tuning with transformers\n")[1]
    ((code, shown),) = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", section, re.DOTALL)[:1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    torch.manual_seed(0)
    names = {}
    exec(code, names)
    printed = capsys.readouterr().out
    found, expected = (list(map(int, re.findall(r"(\d+)%", text))) for text in (printed, shown))
    assert re.sub(r"\d+%", "", printed) == re.sub(r"\d+%", "", shown)
    assert found == pytest.approx(expected, abs=4)
    # And elsewhere.
    before, after = Cadmus.load(), Cadmus.load(tmp_path / "results/tuned")
    for template in ("basic_sequences", "apply_labels", "random", "subroutines"):
        assert names["solved"](after, template) > names["solved"](before, template) - 0.04


def test_with_a_padding_token_the_standard_collator_keeps_the_end(tokenizer, theirs, tmp_path):
    _save(theirs, tokenizer, tmp_path / "copy")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "copy")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "copy")
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    model.resize_token_embeddings(len(tokenizer))
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    batch = collate([tokenizer(program) for program in PROGRAMS])
    assert (batch["labels"] == isa.END_ID).sum(-1).tolist() == [1, 1, 1]
    assert torch.isfinite(model(**batch).loss)
    _save(model, tokenizer, tmp_path / "tuned")
    tuned = Cadmus.load(tmp_path / "tuned")
    assert np.array_equal(tuned.next_logits(PROMPTS), Cadmus.load().next_logits(PROMPTS))
