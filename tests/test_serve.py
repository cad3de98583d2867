"""``cadmus serve``: the OpenAI API for completions."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import openai
import pytest
import torch
from click.testing import CliRunner
from starlette.testclient import TestClient

from cadmus import isa
from cadmus.cli.complete import complete
from cadmus.cli.serve import serve as command
from cadmus.cli.server import listening
from cadmus.errors import InputError
from cadmus.model import shipped
from cadmus.model.inference import Cadmus
from cadmus.model.sampling import Sampler
from cadmus.programs import Programs
from cadmus.serve import protocol
from cadmus.serve.application import application
from tests.test_complete import PREFIXES, ROOT, TRAINED_LENGTH, small_export
from tests.test_model import FLOAT_NOISE, alone

NAME = "tiny"
START = 60
"""Seconds that a server may take to start or stop on a busy machine."""


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return small_export(tmp_path_factory.mktemp("exports") / NAME)


@pytest.fixture(scope="module")
def model(export):
    return Cadmus.load(export)


@pytest.fixture(scope="module")
def client(model):
    with TestClient(application(model, NAME, TRAINED_LENGTH), raise_server_exceptions=False) as test_client:
        yield test_client


@pytest.fixture(scope="module")
def port(export):
    """That of the real command, in a process of its own, which is stopped as a service manager does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cadmus", "serve", "--model", export, "--port", "0", "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert select.select([process.stdout], [], [], START)[0], "no sign of life"
        line = process.stdout.readline()
        found = re.fullmatch(rf"{NAME} is served at http://127\.0\.0\.1:(\d+)/v1 \(Ctrl-C stops\)\n", line)
        assert found, (line, process.poll() is not None and process.stderr.read())
        yield int(found[1])
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=START)
        assert (process.returncode, output, errors) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def official(port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as made:
        yield made


def ask(client, **fields):
    """The answer to a request, greedy unless it says otherwise."""
    response = client.post("/v1/completions", json={"model": NAME, "temperature": 0, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def choices(client, **fields):
    return ask(client, **fields)["choices"]


def refused(client, status=400, **fields):
    """The error that answers a request."""
    response = client.post("/v1/completions", json={"model": NAME, "prompt": "1", **fields})
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert "\n" not in error["message"]
    return error


def tokens_of(program):
    return [isa.TOKEN_ID[symbol] for symbol in program]


def expected_logprobs(model, program):
    """That of each token of a program, which may have its end, but the first, in the plainest way."""
    with torch.inference_mode():
        table = alone(model.model, program).log_softmax(-1).numpy()
    return [table[place][token] for place, token in enumerate(tokens_of(program)[1:])]


# What is answered


def test_greedy_answers_are_those_of_the_decoder(client, model):
    completions, ended = model.complete(Programs.from_strings(PREFIXES), TRAINED_LENGTH)
    answer = ask(client, prompt=PREFIXES, max_tokens=100)
    assert [choice["text"] for choice in answer["choices"]] == completions.to_strings()
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(PREFIXES)))
    reasons = [choice["finish_reason"] for choice in answer["choices"]]
    assert reasons == ["stop" if end else "length" for end in ended]
    assert {"stop", "length"} == set(reasons)
    assert (answer["object"], answer["model"]) == ("text_completion", NAME)
    # Behind a program of full length the model wrote one more, which was not the end.
    written = completions.lengths.sum() + len(PREFIXES)
    prompted = sum(map(len, PREFIXES))
    assert answer["usage"] == {
        "prompt_tokens": prompted,
        "completion_tokens": written,
        "total_tokens": prompted + written,
    }


def test_the_shipped_model_answers_as_cadmus_complete_does():
    prefix = "62*4+54*4-"
    directory = shipped.named_or_default(None)
    model = Cadmus.load(directory)
    with TestClient(application(model, NAME, model.max_length)) as test_client:
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
def test_no_more_than_max_tokens_are_written(client, max_tokens):
    wholes = choices(client, prompt=PREFIXES, max_tokens=100)
    answer = ask(client, prompt=PREFIXES, max_tokens=max_tokens)
    used = 0
    for whole, found in zip(wholes, answer["choices"], strict=True):
        assert found["text"] == whole["text"][:max_tokens]
        # The end is a token as well.
        ends = whole["finish_reason"] == "stop" and len(whole["text"]) < max_tokens
        assert found["finish_reason"] == ("stop" if ends else "length")
        # A text that is shorter has the end behind it, or what was written behind a full program.
        used += len(found["text"]) + (len(found["text"]) < max_tokens)
    assert answer["usage"]["completion_tokens"] == used


def test_an_end_for_which_there_is_no_token_left_is_not_written(client):
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


def test_sixteen_tokens_are_written_unless_more_are_asked_for(tmp_path):
    # One that never ends, and may write long programs.
    made = Cadmus.load(small_export(tmp_path / "long"))
    with torch.no_grad():
        made.model.lm_head.weight[isa.END_ID] = 0
    with TestClient(application(made, NAME, 40)) as test_client:
        assert len(choices(test_client, prompt="12")[0]["text"]) == 16
        assert len(choices(test_client, prompt="12", max_tokens=100)[0]["text"]) == 38


def test_prompts_come_as_texts_or_token_ids(client):
    wanted = choices(client, prompt=PREFIXES, max_tokens=4, logprobs=1)
    assert (
        choices(client, prompt=[tokens_of(prefix) for prefix in PREFIXES], max_tokens=4, logprobs=1) == wanted
    )
    for prompt in (PREFIXES[0], [PREFIXES[0]], tokens_of(PREFIXES[0]), [tokens_of(PREFIXES[0])]):
        (found,) = choices(client, prompt=prompt, max_tokens=4)
        assert found["text"] == wanted[0]["text"]


# Log-probabilities


@pytest.mark.parametrize("echo", [False, True])
def test_log_probabilities_are_those_of_the_forward_pass(client, model, echo):
    for prompt, choice in zip(
        PREFIXES, choices(client, prompt=PREFIXES, max_tokens=100, logprobs=65, echo=echo), strict=True
    ):
        shown = choice["logprobs"]
        written = "".join(shown["tokens"]).removeprefix(prompt if echo else "")
        text = choice["text"].removeprefix(prompt if echo else "")
        ended = choice["finish_reason"] == "stop"
        # Without its end the program is full, and the model wrote one more.
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
def test_the_own_token_is_named_beside_the_likeliest(client, top):
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


def test_without_logprobs_there_are_none(client):
    (choice,) = choices(client, prompt="12")
    assert choice["logprobs"] is None


@pytest.mark.parametrize("program", ["34+7=.", "34+7=", "1" * TRAINED_LENGTH, "1" * TRAINED_LENGTH + "."])
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_given_continuations_are_scored(client, model, program, max_tokens):
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


def test_nothing_is_written_behind_the_end(client):
    first, ended = choices(client, prompt=["34+7", "34+7=."], max_tokens=5, logprobs=5)
    assert first["text"] == choices(client, prompt="34+7", max_tokens=5)[0]["text"]
    assert len(first["logprobs"]["tokens"]) == 5
    assert (ended["text"], ended["finish_reason"]) == ("", "stop")


# Stop


def test_a_text_is_cut_in_front_of_a_stop(client):
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


def test_a_stop_in_the_prompt_cuts_nothing(client):
    (choice,) = choices(client, prompt="34+7", stop="4+", echo=True, max_tokens=0)
    assert choice["text"] == "34+7"


# Sampling


def texts(client, **fields):
    return [choice["text"] for choice in choices(client, temperature=1, max_tokens=100, **fields)]


def test_the_same_seed_gives_the_same_texts(client):
    first = texts(client, prompt=["34+7", "1"], n=8, seed=3)
    assert first == texts(client, prompt=["34+7", "1"], n=8, seed=3)
    assert first != texts(client, prompt=["34+7", "1"], n=8, seed=4)
    assert first != texts(client, prompt=["34+7", "1"], n=8, seed=-3)
    assert texts(client, prompt="1", n=8) != texts(client, prompt="1", n=8)
    assert len(set(first)) == 16
    # Prompts beside it do not matter.
    assert first[:8] == texts(client, prompt=["34+7", "u1b2b"], n=8, seed=3)[:8]


def test_each_prompt_gets_n_choices_one_behind_another(client):
    answer = ask(client, prompt=["34+7", "1"], n=3, best_of=3, echo=True, temperature=1, seed=0)
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    starts = [choice["text"][:1] for choice in answer["choices"]]
    assert starts == ["3", "3", "3", "1", "1", "1"]
    assert answer["usage"]["prompt_tokens"] == 5


def test_instructions_are_drawn_as_often_as_the_model_says(client, model):
    draws = 128 * 8
    found = choices(client, prompt=["34+7"] * 8, n=128, temperature=0.5, max_tokens=1, logprobs=0, seed=1)
    assert len(found) == draws
    counts = np.bincount([isa.TOKEN_ID[choice["logprobs"]["tokens"][0]] for choice in found], minlength=65)
    shares = torch.from_numpy(model.next_logits(Programs.from_strings(["34+7"]))[0] / 0.5).softmax(0).numpy()
    likely = shares * draws >= 5
    assert likely.sum() >= 5
    deviations = (counts - shares * draws)[likely] / np.sqrt(shares * draws * (1 - shares))[likely]
    assert np.abs(deviations).max() < 4.5
    # What is said of a token is the model's own, whatever the temperature.
    own = {choice["logprobs"]["tokens"][0]: choice["logprobs"]["token_logprobs"][0] for choice in found}
    expected = model.log_probabilities(Programs.from_strings(["34+7"]))[0][-1]
    for token, value in own.items():
        assert value == pytest.approx(expected[isa.TOKEN_ID[token]], abs=FLOAT_NOISE)


def test_only_the_likeliest_of_top_p_are_drawn(client, model):
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
def test_the_narrowest_sampling_is_greedy(client, narrow):
    greedy = choices(client, prompt=PREFIXES, max_tokens=100)
    assert choices(client, prompt=PREFIXES, max_tokens=100, **{"temperature": 1, **narrow}) == greedy


def test_a_draw_next_to_one_gives_an_instruction():
    sampler = Sampler(1, 1.0, 0.9, 0)

    class Highest:
        def random(self):
            return np.nextafter(1.0, 0.0)

    sampler.generators = [Highest()]
    logits = torch.zeros(1, 65)
    logits[0, 7] = 20
    assert sampler(logits, np.array([0])).tolist() == [7]


# What is refused


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"prompt": ""}, "prompt", "prompt: empty"),
        ({"prompt": []}, "prompt", "prompt: empty"),
        ({"prompt": ["1", ""]}, "prompt", "prompt[1]: empty"),
        ({"prompt": [[1], []]}, "prompt", "prompt[1]: empty"),
        ({"prompt": "."}, "prompt", "prompt: empty"),
        ({"prompt": "1.2"}, "prompt", "the end . at position 2 must come last"),
        ({"prompt": "1.."}, "prompt", "the end . at position 2 must come last"),
        ({"prompt": "34€7"}, "prompt", "unknown symbol '€' at position 3"),
        ({"prompt": "\ud800"}, "prompt", r"unknown symbol '\ud800' at position 1"),
        ({"prompt": ["1", "2 3"]}, "prompt", "prompt[1]: unknown symbol ' '"),
        ({"prompt": [1, 65]}, "prompt", "there is no token id 65; ids are 0 to 64"),
        ({"prompt": [[1], [-1]]}, "prompt", "prompt[1]: there is no token id -1"),
        ({"prompt": [10**400]}, "prompt", "there is no token id 1000"),
        ({"prompt": [1, "1"]}, "prompt", "prompt[0]: must be a string or a list of token ids, got 1"),
        ({"prompt": [True]}, "prompt", "prompt[0]: must be a string or a list of token ids, got True"),
        ({"prompt": [[[1]]]}, "prompt", "prompt[0]: must be a string or a list of token ids"),
        ({"prompt": 5}, "prompt", "prompt: must be a string"),
        ({"prompt": {}}, "prompt", "prompt: must be a string"),
        ({"prompt": None}, "prompt", "prompt: missing"),
        ({"prompt": ["1"] * 1025}, "prompt", "1,025 prompts with n = 1 are 1,025 completions; at most 1,024"),
        ({"prompt": ["1"] * 9, "n": 128}, "prompt", "are 1,152 completions"),
        ({"max_tokens": -1}, "max_tokens", "must be greater than or equal to 0, got -1"),
        ({"max_tokens": 1.5}, "max_tokens", "max_tokens: must be a valid integer, got 1.5"),
        ({"max_tokens": "4"}, "max_tokens", "got '4'"),
        ({"max_tokens": True}, "max_tokens", "got True"),
        ({"temperature": -0.1}, "temperature", "greater than or equal to 0"),
        ({"temperature": 2.1}, "temperature", "less than or equal to 2"),
        ({"temperature": "hot"}, "temperature", "valid number"),
        ({"temperature": float("nan")}, "temperature", "temperature: must be a finite number, got nan"),
        ({"temperature": float("-inf")}, "temperature", "temperature: must be a finite number, got -inf"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"top_p": 1.1}, "top_p", "less than or equal to 1"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"n": 129}, "n", "less than or equal to 128"),
        ({"n": 2, "best_of": 3}, "best_of", "best_of: must equal n, got 3"),
        ({"best_of": 2}, "best_of", "best_of: must equal n, got 2"),
        ({"logprobs": -1}, "logprobs", "greater than or equal to 0"),
        ({"logprobs": 66}, "logprobs", "less than or equal to 65"),
        ({"logprobs": True}, "logprobs", "got True"),
        ({"echo": 1}, "echo", "valid boolean"),
        (
            {"stop": ["1", "2", "3", "4", "5"]},
            "stop",
            "stop: must be a string or a list of at most 4 strings, none of them empty, got [",
        ),
        ({"stop": ""}, "stop", "none of them empty, got ''"),
        ({"stop": ["1", ""]}, "stop", "none of them empty, got ''"),
        ({"stop": [1]}, "stop", "stop: must be a string or a list"),
        ({"stop": 1}, "stop", "stop: must be a string or a list"),
        ({"seed": 2**63}, "seed", "less than 9223372036854775808"),
        ({"seed": 0.5}, "seed", "valid integer"),
        ({"user": 1}, "user", "valid string"),
        ({"model": 1}, "model", "valid string"),
        ({"model": None}, "model", "model: missing"),
        ({"suffix": "1"}, "suffix", "suffix: not supported"),
        ({"stream": True}, "stream", "stream: not supported"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "logit_bias: not supported"),
        ({"presence_penalty": 0.1}, "presence_penalty", "presence_penalty: not supported"),
        ({"frequency_penalty": -1}, "frequency_penalty", "frequency_penalty: not supported"),
        ({"max_token": 4}, "max_token", "'max_token': unknown field; known are model, prompt, max_tokens"),
        ({"max_token": None}, "max_token", "'max_token': unknown field"),
    ],
)
def test_a_wrong_field_is_refused_by_name(client, fields, param, message):
    # Text, as a lone surrogate has no UTF-8.
    body = json.dumps({"model": NAME, "prompt": "1", **fields})
    response = client.post("/v1/completions", content=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert error["code"] is None
    assert message in error["message"]
    assert "\n" not in error["message"]


def test_what_does_nothing_is_taken(client):
    plain = choices(client, prompt="12")
    for nothing in (
        {
            **protocol.UNSUPPORTED,
            "best_of": 1,
            "n": 1,
            "top_p": 1,
            "logprobs": None,
            "stop": None,
            "user": "me",
        },
        dict.fromkeys(
            [*protocol.UNSUPPORTED, "seed", "max_tokens", "top_p", "n", "best_of", "echo", "stop", "user"]
        ),
        {"stop": [], "logit_bias": {}},
    ):
        assert choices(client, prompt="12", **nothing) == plain


def test_a_prompt_is_no_longer_than_the_programs_of_the_training(client):
    error = refused(client, prompt="1" * (TRAINED_LENGTH + 1))
    assert error["message"] == "prompt: has 13 instructions, a program at most 12"
    assert error["code"] == "context_length_exceeded"
    assert choices(client, prompt="1" * TRAINED_LENGTH, max_tokens=100)[0]["text"] == ""


def test_another_model_is_not_found(client):
    for error in (refused(client, 404, model="gpt"), client.get("/v1/models/gpt").json()["error"]):
        assert (error["param"], error["code"]) == ("model", "model_not_found")
        assert error["message"] == "model: 'gpt' is not served; use 'tiny'"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b'{"model": "tiny", "prompt": [' + b"1" * 5000 + b"]}",
        b"[" * 200_000,
        b"[]",
        b"null",
        b'"12"',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_json_object_is_refused(client, body):
    response = client.post("/v1/completions", content=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("the body is ")


def test_a_body_may_have_16_mebibytes(client):
    start = json.dumps({"model": NAME, "prompt": "1", "user": ""})[:-2].encode()
    body = start + b"x" * ((16 << 20) - len(start) - 2) + b'"}'
    assert client.post("/v1/completions", content=body).status_code == 200
    response = client.post("/v1/completions", content=body + b" ")
    assert response.status_code == 413
    message = response.json()["error"]["message"]
    assert message == "the body has 16,777,217 bytes; at most 16,777,216"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/chat/completions", 404),
        ("GET", "/", 404),
    ],
)
def test_other_routes_are_refused(client, method, path, status):
    response = client.request(method, path)
    assert response.status_code == status
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json()["error"]["message"].startswith(f"{method} '{path}': ")


def test_a_defect_is_an_error_without_a_traceback(client, model, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("secret")

    with monkeypatch.context() as patch:
        patch.setattr(model, "complete", fail)
        response = client.post("/v1/completions", json={"model": NAME, "prompt": "1"})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert choices(client, prompt="1")


def test_there_are_health_and_a_list_of_models(client):
    assert client.get("/health").json() == {"status": "ok"}
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    (card,) = listed["data"]
    assert (card["id"], card["object"], card["owned_by"]) == (NAME, "model", "cadmus")
    assert client.get(f"/v1/models/{NAME}").json() == card


# The command


def test_the_official_client_is_answered(official, client):
    answer = official.completions.create(
        model=NAME, prompt=PREFIXES, max_tokens=100, temperature=0, logprobs=3, seed=1, user="me"
    )
    wanted = choices(client, prompt=PREFIXES, max_tokens=100, logprobs=3)
    for found, expected in zip(answer.choices, wanted, strict=True):
        assert (found.text, found.finish_reason) == (expected["text"], expected["finish_reason"])
        np.testing.assert_allclose(
            found.logprobs.token_logprobs, expected["logprobs"]["token_logprobs"], atol=FLOAT_NOISE
        )
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert [card.id for card in official.models.list()] == [NAME]
    assert official.models.retrieve(NAME).owned_by == "cadmus"


def test_the_official_client_raises_its_errors(official):
    with pytest.raises(openai.BadRequestError, match="unknown symbol 'ä'") as caught:
        official.completions.create(model=NAME, prompt="ä")
    assert caught.value.param == "prompt"
    with pytest.raises(openai.NotFoundError) as caught:
        official.completions.create(model="gpt", prompt="1")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="stream: not supported"):
        official.completions.create(model=NAME, prompt="1", stream=True)
    with pytest.raises(openai.APIStatusError) as caught:
        official.completions.create(model=NAME, prompt="1" * (17 << 20))
    assert caught.value.status_code == 413


def test_concurrent_requests_get_their_own_answers(official):
    def text(prompt):
        found = official.completions.create(model=NAME, prompt=prompt, max_tokens=100, temperature=1, seed=5)
        return found.choices[0].text

    alone_each = [text(prompt) for prompt in PREFIXES]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(text, PREFIXES * 4)) == alone_each * 4


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"",
    ],
)
def test_a_client_that_goes_away_does_no_harm(port, official, sent):
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.sendall(sent)
    assert official.completions.create(model=NAME, prompt="1").choices


def test_one_request_is_computed_at_a_time_and_others_are_answered(client, model, monkeypatch):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*arguments):
        begun.release()
        assert go_on.wait(START)
        return Cadmus.complete(model, *arguments)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(model, "complete", slow)
        asked = [threads.submit(choices, client, prompt=prompt, max_tokens=100) for prompt in ("34+7", "1")]
        assert begun.acquire(timeout=START)
        assert client.get("/health").status_code == 200
        assert not begun.acquire(timeout=0.2), "the second waits"
        go_on.set()
        found = [answer.result(START)[0]["text"] for answer in asked]
    assert found == [choice["text"] for choice in choices(client, prompt=["34+7", "1"], max_tokens=100)]


def declined(*arguments):
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_server_that_cannot_start_says_why(export, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        message = declined("--model", export, "--device", "cpu", "--port", taken)
    assert f"cannot listen on 127.0.0.1, port {taken}: Address already in use" in message
    for host in ("no.such.host.invalid", "." * 300, "x" * 300):
        assert f"cannot listen on {host}, port" in declined(
            "--model", export, "--device", "cpu", "--host", host
        )
    assert "is no export of a model" in declined("--model", tmp_path)
    assert "--device abacus: not to be had here" in declined("--model", export, "--device", "abacus")
    monkeypatch.setattr(shipped, "DEFAULT_MODEL", tmp_path / "none")
    assert "there is no model in" in declined()


def test_the_command_line_starts_without_a_server_package():
    code = (
        "import sys; from cadmus.cli.main import cadmus; "
        "cadmus(['serve', '--help'], standalone_mode=False); "
        "sys.exit(bool({'starlette', 'uvicorn', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--port" in done.stdout


def test_an_answer_is_sent_at_once():
    with listening("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_documents_show_what_the_shipped_model_says():
    text = Path(ROOT, "docs/serve.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (body,) = re.findall(r"-d '(.*?)'", text)
    directory = shipped.named_or_default(None)
    model = Cadmus.load(directory)
    with TestClient(application(model, directory.name, model.max_length)) as test_client:
        answers = json.loads(shown), test_client.post("/v1/completions", content=body).json()
    logprobs = []
    for answer in answers:
        answer.pop("id"), answer.pop("created")
        logprobs.append(answer["choices"][0].pop("logprobs"))
    assert answers[0] == answers[1]
    values = [[list(top.values()) for top in found.pop("top_logprobs")] for found in logprobs]
    np.testing.assert_allclose(values[0], values[1], atol=1e-3)
    np.testing.assert_allclose(*(found.pop("token_logprobs") for found in logprobs), atol=1e-3)
    assert logprobs[0] == logprobs[1]
    assert f"max_length={model.max_length + 2}\n" in text


def test_the_documents_state_the_limits():
    text = Path(ROOT, "docs/serve.md").read_text(encoding="utf-8")
    assert f"More than {protocol.MAX_CHOICES:,} completions" in text
    assert f"a body above {protocol.MAX_BYTES >> 20} MiB" in text
    assert f"up to {isa.VOCABULARY_SIZE}, which" in text
    assert all(f"`{field}`" in text for field in protocol.UNSUPPORTED)
