"""Exports, and ``transformers`` on them."""

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from cadmus import config, isa, store
from cadmus.errors import InputError
from cadmus.model import FILES
from cadmus.model.export import load_export, read_metadata, save_export
from cadmus.model.inference import Cadmus
from tests.checkout import ROOT
from tests.model.models import FLOAT_NOISE, SIZES, random_model, random_programs, unpacked_logits


def test_transformers_has_the_same_logits_and_greedy_completions(exported):
    model, directory = exported
    theirs = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    programs = random_programs(20, 4, 12)
    completions, ended = Cadmus(model).complete(programs, 24)
    with torch.inference_mode():
        rows = zip(programs.to_strings(), completions.to_strings(), ended, strict=True)
        for program, completion, end in rows:
            tokens = torch.tensor([[isa.TOKEN_ID[symbol] for symbol in program]])
            ours = unpacked_logits(model, program)
            torch.testing.assert_close(theirs(tokens).logits[0], ours, atol=FLOAT_NOISE, rtol=0)
            options = {"do_sample": False, "max_new_tokens": 24 - len(program) + 1}
            output = theirs.generate(tokens, attention_mask=torch.ones_like(tokens), **options)
            generated = output[0, len(program) :].tolist()
            expected = [isa.TOKEN_ID[symbol] for symbol in completion] + [isa.END_ID] * bool(end)
            assert generated[: len(expected)] == expected
            assert end or len(generated) == len(expected) + 1


def test_the_tokenizer_has_our_token_ids(exported):
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported[1])
    text = "".join(isa.TOKEN_ID)
    assert tokenizer(text)["input_ids"] == list(range(isa.VOCABULARY_SIZE))
    assert tokenizer.decode(range(isa.VOCABULARY_SIZE)) == text
    assert tokenizer.eos_token_id == isa.END_ID


def test_an_export_loads_with_the_same_weights(exported):
    model, directory = exported
    loaded = load_export(directory)
    found, expected = loaded.state_dict(), model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    metadata = read_metadata(directory)
    assert metadata.steps == 7
    assert metadata.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_a_model_of_a_training_with_fields_that_are_gone_is_read(tmp_path):
    run = config.load_config(ROOT / "tests/tiny.yaml").model_copy(update={"model": SIZES})
    values = run.model_dump()
    values["model"]["mixer"] = "attention"
    values["train"] |= {"verdict": {"fraction": 0.1}, "repeated": {"fraction": 0.0, "programs": 100_000}}
    save_export(random_model(), tmp_path, {"config": values})
    assert read_metadata(tmp_path).config == run.model_copy(update={"evaluate": config.Evaluate()})


def test_an_export_replaces_an_earlier_one_and_nothing_else(tmp_path):
    model = random_model()
    save_export(model, tmp_path / "model", {"steps": 1})
    save_export(model, tmp_path / "model", {"steps": 2})
    assert read_metadata(tmp_path / "model").steps == 2
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    store.write_card(tmp_path / "model" / "README.md", "the card of the weights that go")
    save_export(model, tmp_path / "model", {"steps": 3})
    assert {path.name for path in (tmp_path / "model").iterdir()} == set(FILES)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("dear")
    with pytest.raises(InputError, match="thesis: not empty and not a model export"):
        save_export(model, tmp_path / "thesis", {})
    assert (tmp_path / "thesis" / "chapter").read_text() == "dear"
    (tmp_path / "model" / "thesis.tex").write_text("dear")
    save_export(model, tmp_path / "model", {})
    assert (tmp_path / "model" / "thesis.tex").read_text() == "dear"


def test_a_link_to_an_export_stays(tmp_path):
    save_export(random_model(), tmp_path / "model", {"steps": 1})
    (tmp_path / "link").symlink_to("model")
    save_export(random_model(), tmp_path / "link", {"steps": 2})
    assert (tmp_path / "link").is_symlink()
    assert read_metadata(tmp_path / "model").steps == 2


def _edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _edit_weights(directory, change):
    path = directory / "model.safetensors"
    weights = load_file(path)
    name = "gpt_neox.final_layer_norm.weight"
    save_file({**weights, name: change(weights[name])}, path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "is not a model export"),
        (lambda d: (d / "config.json").write_text("{"), "not readable"),
        (lambda d: (d / "model.safetensors").unlink(), "No such file or directory"),
        (lambda d: (d / "model.safetensors").write_bytes(b""), "not readable"),
        (lambda d: _edit_weights(d, torch.Tensor.int), "has type torch.int32, not a type of floats"),
        (lambda d: _edit_config(d, num_hidden_layers=100, hidden_size=99_840), "missing tensor"),
        (lambda d: _edit_config(d, intermediate_size=47), "has shape"),
        (lambda d: _edit_config(d, isa_digest=None), "isa_digest: must be .*, got None"),
        (lambda d: _edit_config(d, use_parallel_residual=True), "_residual: must be false, got true"),
        (lambda d: _edit_config(d, num_attention_heads=7), "num_attention_heads, .*: not the sizes of"),
        (lambda d: _edit_config(d, tie_word_embeddings=True), "unexpected tensor"),
        (lambda d: _edit_config(d, rope_parameters={"rope_theta": 1}), "rope_parameters: must be"),
        (lambda d: (d / "generation_config.json").write_text('{"max_new_tokens": 0}'), "must be 1 to 250"),
    ],
)
def test_bad_models_of_other_programs_are_rejected_in_one_line(tmp_path, damage, message):
    directory = tmp_path / "model"
    save_export(random_model(), directory, {})
    (directory / "meta.json").unlink()
    load_export(directory)
    damage(directory)
    with pytest.raises(InputError, match=message) as caught:
        Cadmus.load(directory)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)
