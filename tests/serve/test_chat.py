"""Chat completions."""

import pytest

from tests.cli.exports import PREFIXES
from tests.serve.requests import NAME, choices


def chat(client, *messages, **fields):
    turns = [{"role": "user", "content": content} for content in messages]
    return client.post(
        "/v1/chat/completions", json={"model": NAME, "temperature": 0, "messages": turns, **fields}
    )


@pytest.mark.parametrize("prompt", PREFIXES)
def test_the_reply_is_the_completion_of_the_last_message(client, prompt):
    (expected,) = choices(client, prompt=prompt, max_tokens=100)
    answer = chat(client, "earlier", prompt).json()
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": expected["text"]}
    assert choice["finish_reason"] == expected["finish_reason"]
    assert answer["object"] == "chat.completion"
    parts = chat(client, [{"type": "text", "text": prompt[:1]}, {"type": "text", "text": prompt[1:]}]).json()
    assert parts["choices"] == answer["choices"]


def test_limits(client):
    for name in ("max_tokens", "max_completion_tokens"):
        (choice,) = chat(client, PREFIXES[0], **{name: 1}).json()["choices"]
        (expected,) = choices(client, prompt=PREFIXES[0], max_tokens=1)
        assert (choice["message"]["content"], choice["finish_reason"]) == (
            expected["text"],
            expected["finish_reason"],
        )


def test_the_official_client_reads_replies_and_streams(official, client):
    expected = choices(client, prompt=PREFIXES[0], max_tokens=100, n=2)
    asked = {"model": NAME, "messages": [{"role": "user", "content": PREFIXES[0]}], "temperature": 0, "n": 2}
    answer = official.chat.completions.create(**asked, tools=[], metadata={"a": "b"})
    assert [choice.message.content for choice in answer.choices] == [choice["text"] for choice in expected]
    stream = official.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    texts, reasons = ["", ""], {}
    for chunk in stream:
        usage = chunk.usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason
    assert texts == [choice["text"] for choice in expected]
    assert [reasons[0], reasons[1]] == [choice["finish_reason"] for choice in expected]
    assert usage == answer.usage
    *_, last = official.chat.completions.create(**asked, stream=True)
    assert (last.usage, last.choices[0].index) == (None, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": []}, "messages: the last one must be the user's; its text is the prompt"),
        ({"messages": "34"}, "messages: the last one must be the user's; its text is the prompt"),
        ({"messages": [{"role": "system", "content": "1"}]}, "messages: the last one must be the user's"),
        (
            {"messages": [{"role": "user", "content": 3}]},
            "messages: the content of the last one must be text",
        ),
        ({"messages": [{"role": "user", "content": "ä"}]}, "prompt: unknown symbol 'ä'"),
        ({"tools": [{}]}, "tools: not supported; leave it out"),
        ({"logprobs": True}, "logprobs: not supported; leave it out"),
        ({"temperature": -1}, "temperature: must be greater than or equal to 0, got -1"),
        ({"max_tokens": "7"}, "max_tokens: must be a valid integer, got '7'"),
        ({"nonsense": 1}, "'nonsense': unknown field"),
    ],
)
def test_bad_requests_are_refused(client, fields, message):
    response = chat(client, "1", **fields)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)
