"""Completions, their log-probabilities, and requests that are refused."""

import json
import re

import openai
import pytest
from starlette.testclient import TestClient

from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from cadmus.serve import completions
from cadmus.serve.completions import completion_server
from tests.checkout import ROOT
from tests.cli.exports import PREFIXES, TRAINED_LENGTH
from tests.serve.asking import LOCAL, NAME, ask, choices


@pytest.fixture(scope="module")
def shipped():
    model = Cadmus.load()
    with TestClient(completion_server(model, "laptop"), base_url=LOCAL) as test_client:
        yield test_client


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
    written, prompted = completions.lengths.sum() + len(PREFIXES), sum(map(len, PREFIXES))
    used = {"prompt_tokens": prompted, "completion_tokens": written, "total_tokens": prompted + written}
    assert answer["usage"] == used


def test_example_of_the_documents(shipped):
    text = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (body,) = re.findall(r"-d '(.*?)'", text)
    documented, answered = json.loads(shown), shipped.post("/v1/completions", content=body).json()
    for answer in (documented, answered):
        del answer["id"], answer["created"]
    assert documented == answered
    assert f"More than {completions.MAX_CHOICES:,} completions" in text


def test_max_tokens(client):
    wholes = choices(client, prompt=PREFIXES, max_tokens=100)
    for max_tokens in range(6):
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


def test_stop(client):
    wholes = choices(client, prompt=PREFIXES, max_tokens=100)
    index = max(range(len(wholes)), key=lambda row: len(set(wholes[row]["text"])))
    asked = {"prompt": PREFIXES[index], "max_tokens": 100}
    (whole,) = choices(client, **asked)
    text = whole["text"]
    assert len(text) >= 6
    first = text[3:5]
    place = text.index(first)
    for stop in (first, [first], ["€", first], [text[3:], first]):
        answer = ask(client, **asked, stop=stop)
        (choice,) = answer["choices"]
        assert (choice["text"], choice["finish_reason"]) == (text[:place], "stop")
        assert answer["usage"]["completion_tokens"] == place + 2
    assert choices(client, **asked, stop=["€", text[:2] + "€"]) == [whole]
    # Of two stops, the one that is complete first.
    (choice,) = choices(client, **asked, stop=[text[1:6], text[2:4]])
    assert choice["text"] == text[: text.index(text[2:4])]


@pytest.mark.parametrize("options", [{"temperature": 0.5}, {"temperature": 2, "top_p": 0.7}])
def test_samples_are_those_of_the_decoder(client, model, options):
    prompts = ["34+7", "1"]
    found = choices(client, prompt=prompts, n=8, seed=3, max_tokens=100, **options)
    completions, _ = model.complete(prompts, TRAINED_LENGTH, samples=8, seed=3, **options)
    assert [choice["text"] for choice in found] == completions.to_strings()
    assert len({choice["text"] for choice in found}) > 8
    assert choices(client, prompt=prompts, n=8, seed=-3, max_tokens=100, **options) != found
    unseeded = [choices(client, prompt="1", n=8, max_tokens=100, **options) for _ in range(2)]
    assert unseeded[0] != unseeded[1]


def test_n_choices_per_prompt(client):
    answer = ask(client, prompt=["34+7", "1"], n=3, temperature=1, seed=0)
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert answer["usage"]["prompt_tokens"] == 5


def test_the_official_client_gets_the_same_completions(official, client):
    asked = {"prompt": PREFIXES, "max_tokens": 100}
    answer = official.completions.create(model=NAME, temperature=0, seed=1, user="me", **asked)
    for found, expected in zip(answer.choices, choices(client, **asked), strict=True):
        assert (found.text, found.finish_reason) == (expected["text"], expected["finish_reason"])
    assert [card.id for card in official.models.list()] == [NAME]
    with pytest.raises(openai.BadRequestError, match="unknown symbol 'ä'") as caught:
        official.completions.create(model=NAME, prompt="ä")
    assert caught.value.param == "prompt"
    with pytest.raises(openai.NotFoundError, match="model: 'gpt' is not served; use 'tiny'") as caught:
        official.completions.create(model="gpt", prompt="1")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"prompt": None}, "prompt", "prompt: the prefix is empty"),
        ({"prompt": "1.2"}, "prompt", "has its end . at position 2"),
        ({"prompt": [1, 65]}, "prompt", "prompt: must be a valid string, got [1, 65]"),
        ({"prompt": "1" * 13}, "prompt", "prompt: has 13 instructions, a program at most 12"),
        ({"prompt": ["1"] * 9, "n": 128}, "prompt", "prompts times n are 1,152; at most 1,024"),
        ({"max_tokens": -1}, "max_tokens", "must be greater than or equal to 0, got -1"),
        ({"temperature": float("nan")}, "temperature", "temperature: must be a finite number, got nan"),
        ({"n": 2, "best_of": 2}, "best_of", "best_of: not supported; leave it out"),
        ({"stop": ["1", ""]}, "stop", "at least 1 character"),
        ({"model": None}, "model", "model: Field required"),
        ({"max_token": 4}, "max_token", "max_token: not supported; leave it out"),
    ],
)
def test_bad_fields_are_refused(client, fields, param, message):
    body = json.dumps({"model": NAME, "prompt": "1", **fields})
    response = client.post("/v1/completions", content=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]
    assert "\n" not in error["message"]


def test_values_without_effect_are_accepted(client):
    plain = choices(client, prompt="12")
    neutral = {"suffix": "", "stream": False, "logit_bias": {}, "presence_penalty": 0, "user": "me", "n": 1}
    nulls = dict.fromkeys([*neutral, "seed", "max_tokens", "top_p", "best_of", "echo", "stop", "logprobs"])
    assert choices(client, prompt="12", **neutral) == choices(client, prompt="12", **nulls) == plain


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe\x00", b"[" * 200_000, b"[]", b'{"model": "tiny", "prompt": "\\ud800"}'],
    ids=lambda body: repr(body[:20]),
)
def test_bodies_other_than_json_objects_are_refused(client, body):
    response = client.post("/v1/completions", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("the body: ")
