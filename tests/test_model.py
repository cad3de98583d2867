"""The decoder, its export and its inference."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.utils import counters

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.model import FILES, gpt, inference
from cadmus.model.attention import IMPLEMENTATIONS
from cadmus.model.export import load_export, read_metadata, save_export
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.model.tokens import TOKEN_OF_BYTE, padded_tokens
from cadmus.programs import Programs, join

# Threads cost these tiny models more than they save.
torch.set_num_threads(1)

SIZES = config.Model(layers=3, width=32, heads=4, mlp=48)
FLOAT_NOISE = 2e-5
"""Largest difference of logits of about size 1 between two orders of the same fp32 operations."""


def random_model(sizes: config.Model = SIZES) -> GPT:
    """A model with weights so large that its answers differ from prompt to prompt."""
    torch.manual_seed(5)
    model = GPT(sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
        model.embed_in.weight.mul_(4)
    return model.eval()


def random_programs(count: int, low: int, high: int, seed: int = 1) -> Programs:
    generator = np.random.default_rng(seed)
    symbols = [row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END]
    lengths = generator.integers(low, high + 1, count)
    return Programs.from_strings("".join(generator.choice(symbols, length)) for length in lengths)


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def exported(request, tmp_path_factory):
    sizes = SIZES.model_copy(update={"tied": request.param})
    model = random_model(sizes)
    directory = tmp_path_factory.mktemp("exports") / "model"
    save_export(model, sizes, directory, {"steps": 7})
    return model, directory


def pack(programs: list[str]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One row with the programs one behind another, and some padding in a segment of its own."""
    tokens = [isa.TOKEN_ID[symbol] for program in programs for symbol in program] + [0] * 3
    positions = [place for program in programs for place in range(len(program))] + [0] * 3
    segments = [index for index, program in enumerate(programs) for _ in program] + [-1] * 3
    return torch.tensor([tokens]), torch.tensor([positions]), torch.tensor([segments])


def alone(model: GPT, program: str) -> torch.Tensor:
    tokens, positions, segments = pack([program])
    length = len(program)
    return model(tokens[:, :length], positions[:, :length], segments[:, :length])[0]


def test_packed_programs_get_the_logits_they_get_alone():
    model = random_model()
    programs = ["34+7=", "941-*55*2+=", "12+0>"]
    with torch.inference_mode():
        packed = model(*pack(programs))[0]
        start = 0
        for program in programs:
            separate = alone(model, program)
            assert separate.std() > 0.5
            torch.testing.assert_close(
                packed[start : start + len(program)], separate, atol=FLOAT_NOISE, rtol=0
            )
            start += len(program)


def test_nothing_leaks_from_one_packed_program_into_another():
    model = random_model()
    with torch.inference_mode():
        before = model(*pack(["34+7=", "12+0>", "9f;"]))[0]
        after = model(*pack(["34+7=", "55*tE", "9f;"]))[0]
    assert torch.equal(before[:5], after[:5])
    assert torch.equal(before[10:], after[10:])
    assert not torch.equal(before[5:10], after[5:10])


def test_a_token_does_not_see_later_ones():
    model = random_model()
    with torch.inference_mode():
        assert torch.equal(alone(model, "12+0>")[:4], alone(model, "12+0=")[:4])


def test_positions_matter():
    model = random_model()
    with torch.inference_mode():
        assert not torch.allclose(alone(model, "12-")[-1], alone(model, "21-")[-1], atol=1e-3)


def test_the_forms_of_attention_are_equal():
    rows = [pack(["34+7=", "941-*55*2+=", "12+0>"]), pack(["u", "8Bt-Z?Ex+'", "9f;*@S", "55=!"])]
    tokens, positions, segments = (torch.cat(parts) for parts in zip(*rows, strict=True))
    found = []
    for attend in IMPLEMENTATIONS.values():
        model = random_model()
        model.attend = attend
        logits = model(tokens, positions, segments)[segments >= 0]
        logits.square().mean().backward()
        found.append([logits, *(p.grad for p in model.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=FLOAT_NOISE, rtol=1e-4)


# torch.compile causes warnings of torch while it traces.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("attend", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS)
def test_one_compiled_graph_serves_all_blocks_and_any_number_of_rows(attend):
    torch._dynamo.reset()
    counters.clear()
    model = random_model()
    model.attend = attend
    compiled = random_model()
    compiled.attend = attend
    compiled.compile_blocks("aot_eager")
    row = pack(["34+7=", "941-*55*2+=", "12+0>"])
    for count in (11, 3, 5, 13, 7):
        rows = [part.expand(count, -1) for part in row]
        logits = compiled(*rows)
        torch.testing.assert_close(logits, model(*rows), atol=FLOAT_NOISE, rtol=1e-4)
        logits.sum().backward()
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def test_every_depth_starts_with_the_same_residual_variance():
    torch.manual_seed(0)
    deviations = []
    for layers in (2, 16):
        model = GPT(config.Model(layers=layers, width=64, heads=4, mlp=256))
        tokens = torch.randint(65, (8, 32))
        positions = torch.arange(32).expand(8, -1)
        visible = torch.ones(8, 32, 32, dtype=torch.bool).tril()
        with torch.inference_mode():
            first, *_, last = model.residual_stream(tokens, positions, visible)
        deviations.append((last - first).std().item())
    assert deviations[0] == pytest.approx(deviations[1], rel=0.2)


def test_transformers_gives_the_same_logits_and_greedy_continuations(exported):
    model, directory = exported
    theirs = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    programs = random_programs(20, 4, 12)
    completions, ended = Cadmus(model).complete(programs, 24)
    with torch.inference_mode():
        for program, completion, end in zip(
            programs.to_strings(), completions.to_strings(), ended, strict=True
        ):
            tokens = torch.tensor([[isa.TOKEN_ID[symbol] for symbol in program]])
            torch.testing.assert_close(
                theirs(tokens).logits[0], alone(model, program), atol=FLOAT_NOISE, rtol=0
            )
            generated = theirs.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                do_sample=False,
                max_new_tokens=24 - len(program) + 1,
            )[0, len(program) :].tolist()
            expected = [isa.TOKEN_ID[symbol] for symbol in completion] + [isa.END_ID] * bool(end)
            assert generated[: len(expected)] == expected
            assert end or len(generated) == len(expected) + 1


def test_the_tokenizer_of_transformers_gives_the_token_ids(exported):
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported[1])
    text = "".join(isa.TOKEN_ID)
    assert tokenizer(text)["input_ids"] == list(range(isa.VOCABULARY_SIZE))
    assert tokenizer.decode(range(isa.VOCABULARY_SIZE)) == text
    assert tokenizer.eos_token_id == isa.END_ID
    with pytest.raises(Exception, match="Missing"):
        tokenizer("1 2")


def test_an_export_loads_with_the_same_weights(exported):
    model, directory = exported
    loaded = load_export(directory)
    for (name, found), (_, expected) in zip(
        loaded.state_dict().items(), model.state_dict().items(), strict=True
    ):
        assert torch.equal(found, expected), name
    metadata = read_metadata(directory)
    assert metadata["steps"] == 7
    assert metadata["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_an_export_replaces_an_earlier_one_and_nothing_else(tmp_path):
    model = random_model()
    save_export(model, SIZES, tmp_path / "model", {"steps": 1})
    save_export(model, SIZES, tmp_path / "model", {"steps": 2})
    assert read_metadata(tmp_path / "model")["steps"] == 2
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    # Snakemake deletes the files of a failed export, but not the card.
    (tmp_path / "model" / "README.md").write_text("a card")
    for name in FILES:
        (tmp_path / "model" / name).unlink()
    save_export(model, SIZES, tmp_path / "model", {"steps": 3})
    assert {path.name for path in (tmp_path / "model").iterdir()} == set(FILES)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("dear")
    with pytest.raises(InputError, match="thesis: not empty and not a model export"):
        save_export(model, SIZES, tmp_path / "thesis", {})
    assert (tmp_path / "thesis" / "chapter").read_text() == "dear"


def _edit_metadata(directory, **changes):
    path = directory / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: shutil.rmtree(d), "is not a model export"),
        (lambda d: (d / "meta.json").unlink(), "is not a model export"),
        (lambda d: (d / "meta.json").write_text("{"), "not valid JSON"),
        (lambda d: (d / "model.safetensors").unlink(), "missing"),
        (lambda d: (d / "model.safetensors").write_bytes(b""), "damaged"),
        (
            lambda d: (d / "model.safetensors").write_bytes((d / "model.safetensors").read_bytes()[:-9]),
            "damaged",
        ),
        (lambda d: _edit_metadata(d, isa_digest="0123"), "trained on instruction set 0123"),
        (lambda d: _edit_metadata(d, model=None), "not the sizes of a model"),
        (lambda d: _edit_metadata(d, model={**SIZES.model_dump(), "mlp": 47}), "has shape"),
        (lambda d: _edit_metadata(d, model={**SIZES.model_dump(), "layers": 4}), "missing tensor"),
        (lambda d: _edit_metadata(d, model={**SIZES.model_dump(), "layers": 2}), "unexpected tensor"),
    ],
)
def test_bad_exports_are_refused_in_one_line(tmp_path, damage, message):
    directory = tmp_path / "model"
    save_export(random_model(), SIZES, directory, {})
    damage(directory)
    with pytest.raises(InputError, match=message) as caught:
        Cadmus.load(directory)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)


def test_next_logits_are_those_after_the_last_instruction():
    model = random_model()
    prompts = random_programs(25, 1, 15)
    logits = Cadmus(model, batch_size=7).next_logits(prompts)
    assert logits.dtype == np.float32
    with torch.inference_mode():
        for row, prompt in zip(logits, prompts.to_strings(), strict=True):
            np.testing.assert_allclose(row, alone(model, prompt)[-1].numpy(), atol=FLOAT_NOISE)


def recomputed(model: GPT, prompt: str, max_length: int) -> tuple[str, bool]:
    """Greedy decoding in the plainest way."""
    program = prompt
    while True:
        with torch.inference_mode():
            symbol = isa.INSTRUCTIONS[int(alone(model, program)[-1].argmax())].symbol
        if symbol == isa.END or len(program) == max_length:
            return program[len(prompt) :], symbol == isa.END
        program += symbol


@pytest.mark.parametrize(("prompt_tokens", "spare"), [(2048, 16), (30, 1), (1, 3)])
def test_completions_equal_decoding_by_full_recomputation(monkeypatch, prompt_tokens, spare):
    monkeypatch.setattr(inference, "PROMPT_TOKENS", prompt_tokens)
    monkeypatch.setattr(gpt, "SPARE", spare)
    # The end token is made likely enough that programs end at many lengths.
    model = random_model()
    with torch.no_grad():
        model.lm_head.weight[isa.END_ID] *= -2
    prompts = random_programs(60, 1, 20)
    completions, ended = Cadmus(model, batch_size=16).complete(prompts, 20)
    expected = [recomputed(model, prompt, 20) for prompt in prompts.to_strings()]
    assert list(zip(completions.to_strings(), ended.tolist(), strict=True)) == expected
    assert 0.1 < ended.mean() < 0.9
    assert len(set(completions.lengths[ended].tolist())) >= 3


def test_completions_do_not_depend_on_the_batch_size():
    model = random_model()
    prompts = random_programs(50, 1, 12)
    results = [Cadmus(model, batch_size=size).complete(prompts, 18) for size in (1, 8, 64)]
    for completions, ended in results[1:]:
        assert completions.to_strings() == results[0][0].to_strings()
        assert np.array_equal(ended, results[0][1])


@given(st.lists(st.integers(1, 50)).map(sorted), st.integers(1, 200))
def test_prompts_are_cut_where_one_more_would_not_fit(lengths, most):
    def fits(rows: int, shortest: int, longest: int) -> bool:
        return rows * longest - shortest <= most

    parts = list(inference._parts(np.array(lengths), fits))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(len(lengths)))
    for part in parts:
        rows, shortest = part.stop - part.start, lengths[part.start]
        assert rows == 1 or fits(rows, shortest, lengths[part.stop - 1])
        assert part.stop == len(lengths) or not fits(rows + 1, shortest, lengths[part.stop])


def test_no_prompts_give_no_completions():
    completions, ended = Cadmus(random_model()).complete(Programs.from_strings([]), 10)
    assert len(completions) == len(ended) == 0


def test_prompts_must_hold_something_and_leave_room():
    model = Cadmus(random_model())
    with pytest.raises(ValueError, match="empty"):
        model.next_logits(Programs.from_strings(["1", ""]))
    with pytest.raises(ValueError, match="empty"):
        model.complete(Programs.from_strings([""]), 5)
    with pytest.raises(ValueError, match="longer than max_length 5"):
        model.complete(Programs.from_strings(["123456"]), 5)


def test_a_limit_may_be_given_for_each_program():
    model = Cadmus(random_model(), batch_size=7)
    prompts = random_programs(40, 1, 12)
    limits = prompts.lengths + np.random.default_rng(2).integers(0, 15, len(prompts))
    completions, ended = model.complete(prompts, limits)
    for row, limit in enumerate(limits):
        alone, end = model.complete(prompts.take(np.array([row])), int(limit))
        assert (alone.to_strings()[0], end[0]) == (completions.to_strings()[row], ended[row])
    with pytest.raises(ValueError, match="longer than max_length"):
        model.complete(prompts, prompts.lengths - (np.arange(len(prompts)) == 3))


def test_what_follows_is_chosen_from_the_logits_of_its_row():
    model = Cadmus(random_model(), batch_size=7)
    prompts = random_programs(30, 1, 12)
    wanted = np.random.default_rng(3).integers(1, isa.VOCABULARY_SIZE, len(prompts))
    asked = np.zeros(len(prompts), np.int64)

    def choose(logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        first = asked[rows] == 0
        expected = model.next_logits(prompts.take(rows))
        np.testing.assert_allclose(logits.numpy()[first], expected[first], atol=FLOAT_NOISE)
        asked[rows] += 1
        return np.where(asked[rows] <= 1 + rows % 4, wanted[rows], isa.END_ID)

    completions, ended = model.complete(prompts, 20, choose)
    assert ended.all()
    expected = [isa.INSTRUCTIONS[token].symbol * (1 + row % 4) for row, token in enumerate(wanted)]
    assert completions.to_strings() == expected


def test_the_log_probabilities_are_those_that_the_decoder_followed(monkeypatch):
    monkeypatch.setattr(inference, "PROMPT_TOKENS", 40)
    made = random_model()
    with torch.no_grad():
        made.lm_head.weight[isa.END_ID] *= -2
    model = Cadmus(made, batch_size=8)
    prompts = random_programs(30, 1, 12)
    completions, ended = model.complete(prompts, 20)
    programs = join(prompts, completions)
    found = model.log_probabilities(programs)
    first_logits = torch.from_numpy(model.next_logits(prompts))
    assert [len(of_program) for of_program in found] == programs.lengths.tolist()
    for row, (prompt, completion) in enumerate(
        zip(prompts.to_strings(), completions.to_strings(), strict=True)
    ):
        with torch.inference_mode():
            expected = alone(made, prompt + completion).log_softmax(-1).numpy()
        np.testing.assert_allclose(found[row], expected, atol=FLOAT_NOISE)
        followed = [isa.INSTRUCTIONS[token].symbol for token in found[row][len(prompt) - 1 :].argmax(1)]
        written = completion + isa.END * bool(ended[row])
        assert "".join(followed[: len(written)]) == written
        np.testing.assert_allclose(
            found[row][len(prompt) - 1], first_logits[row].log_softmax(0).numpy(), atol=FLOAT_NOISE
        )
    assert model.log_probabilities(Programs.from_strings([])) == []
    with pytest.raises(ValueError, match="empty"):
        model.log_probabilities(Programs.from_strings(["1", ""]))


def test_hidden_states_are_the_residual_stream():
    model = random_model()
    programs = random_programs(10, 6, 6)
    parts = list(Cadmus(model, batch_size=4).hidden_states(programs))
    assert [(part.start, part.stop) for part, _ in parts] == [(0, 4), (4, 8), (8, 10)]
    states = np.concatenate([states for _, states in parts], axis=1)
    assert states.shape == (SIZES.layers + 1, 10, 6, SIZES.width)
    tokens = torch.from_numpy(padded_tokens(programs))
    with torch.inference_mode():
        np.testing.assert_array_equal(states[0], model.embed_in(tokens).numpy())
        logits = model.logits(torch.from_numpy(states[-1][:, -1])).numpy()
    np.testing.assert_allclose(logits, Cadmus(model).next_logits(programs), atol=FLOAT_NOISE)
    with pytest.raises(ValueError, match="different lengths"):
        next(Cadmus(model).hidden_states(Programs.from_strings(["12", "1"])))


def test_the_logit_lens_ends_with_the_logits_of_the_model():
    model = random_model()
    programs = random_programs(10, 6, 6)
    parts = list(Cadmus(model, batch_size=4).layer_logits(programs))
    assert [(part.start, part.stop) for part, _ in parts] == [(0, 4), (4, 8), (8, 10)]
    logits = np.concatenate([logits for _, logits in parts], axis=1)
    assert logits.shape == (SIZES.layers + 1, 10, 6, isa.VOCABULARY_SIZE)
    np.testing.assert_allclose(logits[-1][:, -1], Cadmus(model).next_logits(programs), atol=FLOAT_NOISE)
    assert np.abs(logits[0] - logits[-1]).max() > 0.1


@pytest.mark.parametrize("token", [2, 5])
def test_a_patched_state_is_the_donor_s(token):
    model = Cadmus(random_model(), batch_size=4)
    programs = random_programs(10, 6, 6)
    donors = programs.take(np.arange(10)[::-1])
    own, donor = model.next_logits(programs), model.next_logits(donors)
    for layer in range(SIZES.layers + 1):
        same = model.patched_logits(programs, programs, layer, token)
        np.testing.assert_allclose(same, own, atol=FLOAT_NOISE)
        patched = model.patched_logits(programs, donors, layer, token)
        # Behind the last layer only the last token is read.
        if layer < SIZES.layers or token == 5:
            assert np.abs(patched - own).max() > 0.1
        else:
            np.testing.assert_allclose(patched, own, atol=FLOAT_NOISE)
    if token == 5:
        np.testing.assert_allclose(patched, donor, atol=FLOAT_NOISE)
    with pytest.raises(ValueError, match="different lengths"):
        model.patched_logits(programs, random_programs(10, 7, 7), 0, token)


def test_the_embedding_of_an_instruction_is_all_that_is_patched_in_front_of_the_first_block():
    model = Cadmus(random_model())
    patched = model.patched_logits(
        Programs.from_strings(["34+7"]), Programs.from_strings(["89-6"]), layer=0, token=2
    )
    np.testing.assert_allclose(patched, model.next_logits(Programs.from_strings(["34-7"])), atol=FLOAT_NOISE)


def test_the_lookup_table_is_the_instruction_table():
    assert {chr(byte): token for byte, token in enumerate(TOKEN_OF_BYTE) if token >= 0} == isa.TOKEN_ID
