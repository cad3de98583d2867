import asyncio
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import openai
import pytest
from starlette.testclient import TestClient

from cadmus.model import named_or_default
from cadmus.model.inference import Cadmus
from cadmus.serve.application import application
from tests.checkout import ROOT
from tests.cli.exports import PREFIXES
from tests.model.models import FLOAT_NOISE
from tests.serve.requests import LOCAL, NAME, TIMEOUT, choices


def test_maximum_body_size(client):
    start = json.dumps({"model": NAME, "prompt": "1", "user": ""})[:-2].encode()
    body = start + b"x" * ((2 << 20) - len(start) - 2) + b'"}'
    assert client.post("/v1/completions", content=body).status_code == 200
    response = client.post("/v1/completions", content=body + b" ")
    assert response.status_code == 413
    message = response.json()["error"]["message"]
    assert message == "the body has 2,097,153 bytes; at most 2,097,152"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/responses", 404),
        ("GET", "/", 404),
    ],
)
def test_other_routes(client, method, path, status):
    response = client.request(method, path)
    assert response.status_code == status
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json()["error"]["message"].startswith(f"{method} '{path}': ")


def test_defect_gives_an_error_without_traceback(client, model, monkeypatch):
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


def test_health_and_models(client):
    assert client.get("/health").json() == {"status": "ok"}
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    (card,) = listed["data"]
    assert (card["id"], card["object"], card["owned_by"]) == (NAME, "model", "cadmus")
    assert client.get(f"/v1/models/{NAME}").json() == card


def test_official_client(official, client):
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


def test_errors_of_the_official_client(official):
    with pytest.raises(openai.BadRequestError, match="unknown symbol 'ä'") as caught:
        official.completions.create(model=NAME, prompt="ä")
    assert caught.value.param == "prompt"
    with pytest.raises(openai.NotFoundError) as caught:
        official.completions.create(model="gpt", prompt="1")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="stream: not supported"):
        official.completions.create(model=NAME, prompt="1", stream=True)
    with pytest.raises(openai.APIStatusError) as caught:
        official.completions.create(model=NAME, prompt="1" * (3 << 20))
    assert caught.value.status_code == 413


def test_concurrent_requests(official):
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
def test_disconnecting_client(port, official, sent):
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.sendall(sent)
    assert official.completions.create(model=NAME, prompt="1").choices


def test_one_completion_at_a_time(client, model, monkeypatch):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*arguments):
        begun.release()
        assert go_on.wait(TIMEOUT)
        return Cadmus.complete(model, *arguments)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(model, "complete", slow)
        asked = [threads.submit(choices, client, prompt=prompt, max_tokens=100) for prompt in ("34+7", "1")]
        assert begun.acquire(timeout=TIMEOUT)
        assert client.get("/health").status_code == 200
        assert not begun.acquire(timeout=0.2), "the second waits"
        go_on.set()
        found = [answer.result(TIMEOUT)[0]["text"] for answer in asked]
    assert found == [choice["text"] for choice in choices(client, prompt=["34+7", "1"], max_tokens=100)]


def test_host_and_origin(client, model):
    def status(test_client, **headers):
        return test_client.get("/health", headers=headers).status_code

    response = client.get("/health", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert "--allow-host NAME" in response.json()["error"]["message"]
    assert status(client, Origin="http://evil.example") == 403
    with TestClient(application(model, NAME, 40, {"models.example"}), base_url=LOCAL) as named:
        assert status(named, Host="models.example", Origin="https://models.example") == 200
        assert status(named, Host="other.example") == 400


def test_full_queue(client, model, monkeypatch):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*arguments):
        begun.release()
        assert go_on.wait(TIMEOUT)
        return Cadmus.complete(model, *arguments)

    monkeypatch.setattr("cadmus.serve.application.MAX_REQUESTS", 1)
    app = application(model, NAME, 40)
    with (
        monkeypatch.context() as patch,
        TestClient(app, base_url=LOCAL) as busy,
        ThreadPoolExecutor() as threads,
    ):
        patch.setattr(model, "complete", slow)
        first = threads.submit(choices, busy, prompt="1")
        assert begun.acquire(timeout=TIMEOUT)
        for path in ("completions", "chat/completions"):
            refused = busy.post(f"/v1/{path}", json={"model": NAME, "prompt": "1"})
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            assert refused.json()["error"]["type"] == "server_error"
        assert busy.get("/health").status_code == 200
        go_on.set()
        assert first.result(TIMEOUT)
        assert choices(busy, prompt="1")


def test_requests_of_clients_that_left_are_not_computed(model, monkeypatch):
    begun, go_on, decoded = threading.Semaphore(0), threading.Event(), []

    def slow(prompts, *arguments):
        begun.release()
        assert go_on.wait(TIMEOUT)
        decoded.append(len(prompts))
        return Cadmus.complete(model, prompts, *arguments)

    monkeypatch.setattr(model, "complete", slow)
    app = application(model, NAME, 40)

    async def answer(path, fields, seconds):
        """Send a request and leave after some seconds, or wait for the response if there are none."""
        body, sent = [{"type": "http.request", "body": json.dumps(fields).encode()}], []

        async def receive():
            if body:
                return body.pop()
            await asyncio.sleep(seconds or TIMEOUT)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"localhost")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/v1/{path}",
            "headers": headers,
            "query_string": b"",
        }
        await app(scope, receive, send)
        return sent[0]["status"]

    async def answer_all():
        chat = {"model": NAME, "messages": [{"role": "user", "content": "1"}], "stream": True}
        first = asyncio.create_task(answer("completions", {"model": NAME, "prompt": "1"}, None))
        assert await asyncio.to_thread(begun.acquire, timeout=TIMEOUT)
        left = [
            asyncio.create_task(answer("completions", {"model": NAME, "prompt": "1"}, 0.01)),
            asyncio.create_task(answer("chat/completions", chat, 0.01)),
        ]
        stays = asyncio.create_task(answer("completions", {"model": NAME, "prompt": ["1", "2", "3"]}, None))
        await asyncio.sleep(0.3)
        go_on.set()
        return await asyncio.gather(first, *left, stays)

    assert asyncio.run(answer_all()) == [200, 400, 400, 200]
    assert decoded == [1, 3]


def test_example_of_the_documents():
    text = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (body,) = re.findall(r"-d '(.*?)'", text)
    directory = named_or_default(None)
    model = Cadmus.load(directory)
    app = application(model, directory.name, model.max_length)
    with TestClient(app, base_url=LOCAL) as test_client:
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
