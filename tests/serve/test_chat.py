"""Chat completions."""

import pytest

from tests.cli.exports import PREFIXES
from tests.serve.asking import NAME, choices


def chat(client, *messages, **fields):
    turns = [{"role": "user", "content": content} for content in messages]
    asked = {"model": NAME, "temperature": 0, "messages": turns, **fields}
    return client.post("/v1/chat/completions", json=asked)


@pytest.mark.parametrize("prompt", PREFIXES)
def test_the_reply_is_the_completion_of_the_last_message(client, prompt):
    (expected,) = choices(client, prompt=prompt, max_tokens=100)
    answer = chat(client, "earlier", prompt).json()
    message = {"role": "assistant", "content": expected.pop("text")}
    assert answer["choices"] == [{"message": message, **expected}]
    assert answer["object"] == "chat.completion"
    for name in ("max_tokens", "max_completion_tokens"):
        (cut,) = chat(client, prompt, **{name: 1}).json()["choices"]
        assert cut["message"]["content"] == message["content"][:1]


def test_the_official_client_reads_replies(official, client):
    expected = choices(client, prompt=PREFIXES[0], max_tokens=100, n=2)
    asked = {"model": NAME, "messages": [{"role": "user", "content": PREFIXES[0]}], "temperature": 0, "n": 2}
    answer = official.chat.completions.create(**asked, tools=[], logprobs=False, metadata={"a": "b"})
    assert [choice.message.content for choice in answer.choices] == [choice["text"] for choice in expected]


def test_a_stream_has_the_answer_in_one_event(official, client):
    (expected,) = choices(client, prompt=PREFIXES[0], max_tokens=100)
    asked = {"model": NAME, "temperature": 0, "max_tokens": 100, "stream": True}
    with official.completions.create(**asked, prompt=PREFIXES[0]) as stream:
        (event,) = stream
    assert event.choices[0].text == expected["text"]
    assert event.choices[0].finish_reason == expected["finish_reason"]
    messages = [{"role": "user", "content": PREFIXES[0]}]
    with official.chat.completions.create(**asked, messages=messages) as stream:
        (event,) = stream
    assert event.object == "chat.completion.chunk"
    assert event.choices[0].delta.content == expected["text"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": []}, "messages: the last one must be text"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages: the last one must be text of the user"),
        ({"messages": [{"role": "system", "content": ""}]}, "messages: the last one must be text of the"),
        ({"logprobs": 2}, "logprobs: not supported"),
    ],
)
def test_bad_requests_are_refused(client, fields, message):
    response = chat(client, "1", **fields)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)
