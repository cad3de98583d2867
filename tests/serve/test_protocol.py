import json

import pytest

from cadmus import isa
from cadmus.serve import protocol
from tests.checkout import ROOT
from tests.cli.exports import TRAINED_LENGTH
from tests.serve.requests import NAME, choices, refused


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
def test_bad_fields(client, fields, param, message):
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


def test_values_without_effect_are_accepted(client):
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


def test_maximum_prompt_length(client):
    error = refused(client, prompt="1" * (TRAINED_LENGTH + 1))
    assert error["message"] == "prompt: has 13 instructions, a program at most 12"
    assert error["code"] == "context_length_exceeded"
    assert choices(client, prompt="1" * TRAINED_LENGTH, max_tokens=100)[0]["text"] == ""


def test_unknown_model(client):
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
def test_bodies_other_than_json_objects(client, body):
    response = client.post("/v1/completions", content=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("the body is ")


def test_limits_of_the_documents():
    text = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    assert f"More than {protocol.MAX_CHOICES:,} completions" in text
    assert f"a body above {protocol.MAX_BYTES >> 20} MiB" in text
    assert f"up to {isa.VOCABULARY_SIZE}, which" in text
    assert all(f"`{field}`" in text for field in protocol.UNSUPPORTED)
