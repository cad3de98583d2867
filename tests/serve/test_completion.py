import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from starlette.testclient import TestClient

from cadmus import isa
from cadmus.cli.complete import complete
from cadmus.model import named_or_default
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from cadmus.serve.application import application
from tests.cli.exports import PREFIXES, TRAINED_LENGTH, small_export
from tests.model.models import FLOAT_NOISE, unpacked_logits
from tests.serve.requests import LOCAL, NAME, ask, choices


def tokens_of(program):
    return [isa.TOKEN_ID[symbol] for symbol in program]


def expected_logprobs(model, program):
    """Return the log-probability of each token but the first, from a plain forward pass."""
    with torch.inference_mode():
        table = unpacked_logits(model.model, program).log_softmax(-1).numpy()
    return [table[place][token] for place, token in enumerate(tokens_of(program)[1:])]


def test_greedy_completions_match_the_decoder(client, model):
    completions, ended = model.complete(Programs.from_strings(PREFIXES), TRAINED_LENGTH)
    answer = ask(client, prompt=PREFIXES, max_tokens=100)
    assert [choice["text"] for choice in answer["choices"]] == completions.to_strings()
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(PREFIXES)))
    reasons = [choice["finish_reason"] for choice in answer["choices"]]
    assert reasons == ["stop" if end else "length" for end in ended]
    assert {"stop", "length"} == set(reasons)
    assert (answer["object"], answer["model"]) == ("text_completion", NAME)
    # After a program of full length the model wrote one more token, not the end.
    written = completions.lengths.sum() + len(PREFIXES)
    prompted = sum(map(len, PREFIXES))
    assert answer["usage"] == {
        "prompt_tokens": prompted,
        "completion_tokens": written,
        "total_tokens": prompted + written,
    }


def test_shipped_model_matches_cadmus_complete():
    prefix = "62*4+54*4-"
    directory = named_or_default(None)
    model = Cadmus.load(directory)
    with TestClient(application(model, NAME, model.max_length), base_url=LOCAL) as test_client:
        (choice,) = choices(test_client, prompt=prefix, logprobs=5)
    shown = json.loads(CliRunner().invoke(complete, [prefix, "--json"], catch_exceptions=False).output)
    assert choice["text"] == shown["completion"] == "="
    assert (choice["finish_reason"], shown["ended"]) == ("stop", True)
    assert choice["logprobs"]["tokens"] == ["=", "."]
    for top, step in zip(choice["logprobs"]["top_logprobs"], shown["steps"], strict=True):
        assert list(top) == [row["instruction"] for row in step]
        np.testing.assert_allclose(
            np.exp(list(top.values())), [row["probability"] for row in step], atol=1e-6
        )


@pytest.mark.parametrize("max_tokens", [0, 1, 3])
def test_max_tokens(client, max_tokens):
    wholes = choices(client, prompt=PREFIXES, max_tokens=100)
    answer = ask(client, prompt=PREFIXES, max_tokens=max_tokens)
    used = 0
    for whole, found in zip(wholes, answer["choices"], strict=True):
        assert found["text"] == whole["text"][:max_tokens]
        # The end is a token as well.
        ends = whole["finish_reason"] == "stop" and len(whole["text"]) < max_tokens
        assert found["finish_reason"] == ("stop" if ends else "length")
        # A shorter text is followed by the end, or by the token after a full program.
        used += len(found["text"]) + (len(found["text"]) < max_tokens)
    assert answer["usage"]["completion_tokens"] == used


def test_end_counts_as_a_token(client):
    (whole,) = [
        choice
        for choice in choices(client, prompt=PREFIXES, max_tokens=100)
        if choice["finish_reason"] == "stop" and choice["text"]
    ][:1]
    prompt, text = PREFIXES[whole["index"]], whole["text"]
    cut = ask(client, prompt=prompt, max_tokens=len(text))
    assert cut["choices"][0]["text"] == text
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == len(text)
    ended = ask(client, prompt=prompt, max_tokens=len(text) + 1)
    assert ended["choices"][0]["finish_reason"] == "stop"
    assert ended["usage"]["completion_tokens"] == len(text) + 1


def test_default_of_max_tokens(tmp_path):
    # A model that never ends and may write long programs.
    made = Cadmus.load(small_export(tmp_path / "long"))
    with torch.no_grad():
        made.model.lm_head.weight[isa.END_ID] = 0
    with TestClient(application(made, NAME, 40), base_url=LOCAL) as test_client:
        assert len(choices(test_client, prompt="12")[0]["text"]) == 16
        assert len(choices(test_client, prompt="12", max_tokens=100)[0]["text"]) == 38


def test_prompts_are_strings_or_token_ids(client):
    wanted = choices(client, prompt=PREFIXES, max_tokens=4, logprobs=1)
    assert (
        choices(client, prompt=[tokens_of(prefix) for prefix in PREFIXES], max_tokens=4, logprobs=1) == wanted
    )
    for prompt in (PREFIXES[0], [PREFIXES[0]], tokens_of(PREFIXES[0]), [tokens_of(PREFIXES[0])]):
        (found,) = choices(client, prompt=prompt, max_tokens=4)
        assert found["text"] == wanted[0]["text"]


@pytest.mark.parametrize("echo", [False, True])
def test_log_probabilities_match_the_forward_pass(client, model, echo):
    for prompt, choice in zip(
        PREFIXES, choices(client, prompt=PREFIXES, max_tokens=100, logprobs=65, echo=echo), strict=True
    ):
        shown = choice["logprobs"]
        written = "".join(shown["tokens"]).removeprefix(prompt if echo else "")
        text = choice["text"].removeprefix(prompt if echo else "")
        ended = choice["finish_reason"] == "stop"
        # Without its end the program is full, and the model wrote one more token.
        assert written[:-1] == text
        assert (written[-1] == isa.END) == ended
        assert ended or len(prompt + text) == TRAINED_LENGTH
        start = 0 if echo else len(prompt)
        wanted = [None, *expected_logprobs(model, prompt + written)][start:]
        assert len(wanted) == len(shown["token_logprobs"]) == len(shown["text_offset"])
        for token, value, wanted_value, top, offset in zip(
            shown["tokens"],
            shown["token_logprobs"],
            wanted,
            shown["top_logprobs"],
            shown["text_offset"],
            strict=True,
        ):
            assert choice["text"][offset : offset + 1] in (token, "")
            if wanted_value is None:
                assert (value, top, offset) == (None, None, 0)
                continue
            assert value == pytest.approx(wanted_value, abs=FLOAT_NOISE)
            assert top[token] == value
            assert set(top) == set(isa.BY_SYMBOL)
            assert list(top.values()) == sorted(top.values(), reverse=True)
            assert sum(map(np.exp, top.values())) == pytest.approx(1, abs=1e-5)
        assert shown["text_offset"] == [
            min(place, len(choice["text"])) for place in range(len(shown["tokens"]))
        ]


@pytest.mark.parametrize("top", [0, 2])
def test_top_logprobs_include_the_own_token(client, top):
    (choice,) = choices(client, prompt="941-*55*2+", max_tokens=0, echo=True, logprobs=top)
    (whole,) = choices(client, prompt="941-*55*2+", max_tokens=0, echo=True, logprobs=65)
    found = choice["logprobs"]
    sizes = set()
    for token, few, all_of_them in zip(
        found["tokens"][1:], found["top_logprobs"][1:], whole["logprobs"]["top_logprobs"][1:], strict=True
    ):
        assert set(few) == {*list(all_of_them)[:top], token}
        sizes.add(len(few))
    assert max(sizes) == top + 1


def test_no_logprobs_by_default(client):
    (choice,) = choices(client, prompt="12")
    assert choice["logprobs"] is None


@pytest.mark.parametrize("program", ["34+7=.", "34+7=", "1" * TRAINED_LENGTH, "1" * TRAINED_LENGTH + "."])
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_scoring_of_given_completions(client, model, program, max_tokens):
    answer = ask(client, prompt=program, echo=True, logprobs=1, max_tokens=max_tokens)
    (choice,) = answer["choices"]
    shown = choice["logprobs"]
    # Tools ask for one token, as not all servers take 0, and drop the last entry.
    kept = len(shown["tokens"]) - max_tokens
    assert shown["tokens"][:kept] == list(program)
    wanted = expected_logprobs(model, program)
    np.testing.assert_allclose(shown["token_logprobs"][1:kept], wanted, atol=FLOAT_NOISE)
    assert answer["usage"]["completion_tokens"] == max_tokens
    assert choice["text"].startswith(program)
    assert len(choice["text"]) <= max(len(program), TRAINED_LENGTH)
    if program.endswith(isa.END) and max_tokens:
        assert (choice["text"], choice["finish_reason"]) == (program, "stop")
        assert (shown["token_logprobs"][-1], shown["top_logprobs"][-1]) == (0, {isa.END: 0})


def test_prompt_with_its_end(client):
    first, ended = choices(client, prompt=["34+7", "34+7=."], max_tokens=5, logprobs=5)
    assert first["text"] == choices(client, prompt="34+7", max_tokens=5)[0]["text"]
    assert len(first["logprobs"]["tokens"]) == 5
    assert (ended["text"], ended["finish_reason"]) == ("", "stop")


def test_stop(client):
    wholes = choices(client, prompt=PREFIXES, max_tokens=100)
    index = max(range(len(wholes)), key=lambda row: len(set(wholes[row]["text"])))
    asked = {"prompt": PREFIXES[index], "max_tokens": 100, "logprobs": 0}
    whole = choices(client, **asked)[0]
    text = whole["text"]
    assert len(text) >= 6
    first = text[3:5]
    place = text.index(first)
    for stop in (first, [first], ["€", first], [text[3:], first]):
        answer = ask(client, **asked, stop=stop)
        (choice,) = answer["choices"]
        assert (choice["text"], choice["finish_reason"]) == (text[:place], "stop")
        assert choice["logprobs"]["tokens"] == list(text[:place])
        assert answer["usage"]["completion_tokens"] == place + 2
    assert choices(client, **asked, stop=["€", text[:2] + "€"]) == [whole]
    # Of two stops, the one that is complete first.
    (choice,) = choices(client, **asked, stop=[text[1:6], text[2:4]])
    assert choice["text"] == text[: text.index(text[2:4])]


def test_stop_in_the_prompt_has_no_effect(client):
    (choice,) = choices(client, prompt="34+7", stop="4+", echo=True, max_tokens=0)
    assert choice["text"] == "34+7"


def texts(client, **fields):
    return [choice["text"] for choice in choices(client, temperature=1, max_tokens=100, **fields)]


def test_seed(client):
    first = texts(client, prompt=["34+7", "1"], n=8, seed=3)
    assert first == texts(client, prompt=["34+7", "1"], n=8, seed=3)
    assert first != texts(client, prompt=["34+7", "1"], n=8, seed=4)
    assert first != texts(client, prompt=["34+7", "1"], n=8, seed=-3)
    assert texts(client, prompt="1", n=8) != texts(client, prompt="1", n=8)
    assert len(set(first)) == 16
    # Prompts beside it do not matter.
    assert first[:8] == texts(client, prompt=["34+7", "u1b2b"], n=8, seed=3)[:8]


def test_n_choices_per_prompt(client):
    answer = ask(client, prompt=["34+7", "1"], n=3, best_of=3, echo=True, temperature=1, seed=0)
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    starts = [choice["text"][:1] for choice in answer["choices"]]
    assert starts == ["3", "3", "3", "1", "1", "1"]
    assert answer["usage"]["prompt_tokens"] == 5


def test_sampling_frequencies(client, model):
    draws = 128 * 8
    found = choices(client, prompt=["34+7"] * 8, n=128, temperature=0.5, max_tokens=1, logprobs=0, seed=1)
    assert len(found) == draws
    counts = np.bincount([isa.TOKEN_ID[choice["logprobs"]["tokens"][0]] for choice in found], minlength=65)
    shares = torch.from_numpy(model.next_logits(Programs.from_strings(["34+7"]))[0] / 0.5).softmax(0).numpy()
    likely = shares * draws >= 5
    assert likely.sum() >= 5
    deviations = (counts - shares * draws)[likely] / np.sqrt(shares * draws * (1 - shares))[likely]
    assert np.abs(deviations).max() < 4.5
    # Log-probabilities do not depend on the temperature.
    own = {choice["logprobs"]["tokens"][0]: choice["logprobs"]["token_logprobs"][0] for choice in found}
    expected = model.log_probabilities(Programs.from_strings(["34+7"]))[0][-1]
    for token, value in own.items():
        assert value == pytest.approx(expected[isa.TOKEN_ID[token]], abs=FLOAT_NOISE)


def test_top_p(client, model):
    logits = model.next_logits(Programs.from_strings(["34+7"]))[0]
    shares = np.sort(torch.from_numpy(logits).softmax(0).numpy())[::-1]
    order = (-logits).argsort()
    top_p = float(shares[:3].sum() - shares[2] / 2)
    found = choices(
        client, prompt="34+7", n=128, temperature=1, top_p=top_p, max_tokens=1, logprobs=0, seed=1
    )
    drawn = {isa.TOKEN_ID[choice["logprobs"]["tokens"][0]] for choice in found}
    assert drawn == set(order[:3].tolist())


@pytest.mark.parametrize("narrow", [{"temperature": 5e-324}, {"temperature": 1e-3}, {"top_p": 1e-9}])
def test_narrow_sampling_is_greedy(client, narrow):
    greedy = choices(client, prompt=PREFIXES, max_tokens=100)
    assert choices(client, prompt=PREFIXES, max_tokens=100, **{"temperature": 1, **narrow}) == greedy
