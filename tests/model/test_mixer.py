"""Modules of one's own in the place of attention."""

import numpy as np
import pytest
import torch
from torch import nn

from cadmus import isa
from cadmus.config import Model
from cadmus.errors import InputError
from cadmus.model import mixer
from cadmus.model.export import load_export, save_export
from cadmus.model.flops import parameter_count
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus

RECURRENCE = "cadmus.model.mixer:GatedRecurrence"
SIZES = Model(layers=2, width=32, heads=4, mlp=48, mixer=RECURRENCE)


class Leaking(nn.Module):
    """The mean of all tokens, of other programs as well."""

    def __init__(self, width, heads):
        super().__init__()

    def forward(self, x, visible):
        return x + x.mean(1, keepdim=True)


class Narrow(Leaking):
    def forward(self, x, visible):
        return x[..., :-1]


class Future(Leaking):
    """The next token of the same program."""

    def forward(self, x, visible):
        return x.roll(-1, 1)


class Failing(Leaking):
    def forward(self, x, visible):
        return {}["states"]


class Empty(Leaking):
    def forward(self, x, visible):
        return None


class Constant(Leaking):
    def forward(self, x, visible):
        return torch.zeros_like(x)


class Impatient(Leaking):
    def __init__(self, width, heads):
        raise SystemExit("enough")


class Own(Leaking):
    """The state as it is."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.dense = nn.Linear(width, width)

    def forward(self, x, visible):
        return self.dense(x)


OWN = f"{__name__}:Own"


@pytest.fixture
def model():
    torch.manual_seed(3)
    made = GPT(SIZES).eval()
    # The weights are small at first, so that tokens hardly matter to each other.
    with torch.no_grad():
        for weights in made.parameters():
            weights.mul_(8)
    return made


def test_the_example_passes_the_check():
    mixer.check(RECURRENCE, 16, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Leaking", "token 0 reads token 1, which is later or of another program; mask it"),
        ("Narrow", r"returns shape \(1, 8, 15\) for \(1, 8, 16\)"),
        ("Future", "token 0 reads token 1"),
        ("Missing", "has no attribute 'Missing'; wanted a class that takes a width and heads"),
        ("SIZES", "SIZES is not a class of torch.nn.Module; wanted a class"),
        ("Failing", "'states'; wanted a class"),
        ("Empty", "'NoneType' object has no attribute 'shape'"),
        ("Constant", "does not require grad"),
        ("Impatient", "enough; wanted a class"),
    ],
)
def test_a_wrong_mixer_is_one_line(name, message, monkeypatch):
    monkeypatch.setattr(mixer, "MIXERS", dict(mixer.MIXERS))
    with pytest.raises(InputError, match=f"model.mixer: {__name__}:{name}: .*{message}"):
        mixer.check(f"{__name__}:{name}", 16, 2)
    with pytest.raises(InputError, match="No module named 'nowhere'"):
        mixer.admit("nowhere:Class")


@pytest.mark.parametrize(
    "name", ["fractions:Fraction", "builtins:range", "math:gcd", "os:getpid", "torch.nn:Linear"]
)
def test_what_is_no_mixer_is_one_line(name, monkeypatch):
    monkeypatch.setattr(mixer, "MIXERS", dict(mixer.MIXERS))
    with pytest.raises(InputError, match=f"^model.mixer: {name}: .*; wanted a class that takes") as caught:
        mixer.check(name, 16, 2)
    assert "\n" not in str(caught.value)


def test_large_mixers_are_counted_without_memory():
    assert mixer.counts(RECURRENCE, 100_000, 2)[0] == 4 * 100_000**2 + 2 * 100_000


def test_the_mixer_of_an_export_is_the_class_that_the_caller_gives(tmp_path, monkeypatch):
    monkeypatch.setattr(mixer, "MIXERS", dict(mixer.MIXERS))
    sizes = SIZES.model_copy(update={"mixer": OWN})
    with pytest.raises(
        InputError, match=rf"{OWN}: is not of Cadmus, .*; if you trust it, name it: --mixer {OWN}"
    ):
        GPT(sizes)
    save_export(GPT(sizes, Own), tmp_path / "model", {})
    with pytest.raises(InputError, match=f"^{tmp_path}/model: model.mixer: {OWN}: is not of Cadmus"):
        Cadmus.load(tmp_path / "model")
    texts, _ = Cadmus.load(tmp_path / "model", mixer=Own).complete(["12+"], 8)
    assert len(texts) == 1
    # A config of one's own names it once.
    mixer.check(OWN, 16, 2)
    assert Cadmus.load(tmp_path / "model").complete(["12+"], 8)[0].to_strings() == texts.to_strings()
    with pytest.raises(InputError, match="missing tensor"):
        Cadmus.load(tmp_path / "model", mixer=mixer.GatedRecurrence)


def test_a_class_for_a_model_with_attention_is_an_error(tmp_path):
    save_export(GPT(SIZES.model_copy(update={"mixer": "attention"})), tmp_path / "model", {})
    with pytest.raises(InputError, match=r"model: model.mixer: is attention, not a class; drop --mixer"):
        Cadmus.load(tmp_path / "model", mixer=Own)


def test_parameters_are_counted(model):
    assert parameter_count(SIZES) == sum(weights.numel() for weights in model.parameters())


def test_completions_do_not_depend_on_the_cache(model, tmp_path):
    save_export(model, tmp_path / "model", {})
    cadmus = Cadmus(load_export(tmp_path / "model"), max_length=20)
    prompts = ["12+", "3", "44*5-21", "9"]
    texts, ended = cadmus.complete(prompts)
    for prompt, text, end in zip(prompts, texts.to_strings(), ended.tolist(), strict=True):
        whole = cadmus.log_probabilities([prompt + text])[0][len(prompt) - 1 :]
        expected = text + isa.END * end
        tokens = whole[: len(expected)].argmax(-1)
        assert "".join(isa.INSTRUCTIONS[token].symbol for token in tokens) == expected


def test_programs_of_a_row_do_not_see_each_other(model):
    tokens = torch.tensor([[5, 6, 7, 8, 9]])
    segments, positions = torch.tensor([[0, 0, 0, 1, 1]]), torch.tensor([[0, 1, 2, 0, 1]])
    packed = model(tokens, positions, segments)[0, 3:]
    alone = model(tokens[:, 3:], positions[:, 3:], segments[:, 3:])[0]
    np.testing.assert_allclose(packed.detach(), alone.detach(), rtol=1e-4, atol=1e-3)


def test_there_is_no_attention_to_look_at(model):
    with pytest.raises(InputError, match="has no attention weights"):
        list(Cadmus(model).attention(["12"]))
