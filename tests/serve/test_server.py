"""Who may ask, how much, and how errors look."""

import asyncio
import socket
from contextlib import ExitStack, closing

import pytest
from starlette.requests import Request

from cadmus.serve import server
from cadmus.serve.server import ApiError
from dev.measure import PATIENCE
from tests.serve.asking import NAME, choices


@pytest.mark.parametrize(
    ("status", "hosts"),
    [
        (200, ["localhost", "127.0.0.1:8000", "[::1]:8000", "models.example:1"]),
        (400, ["evil.example", "localhost.evil.example", "[::2]"]),
    ],
)
def test_only_names_of_this_server_are_served(client, status, hosts):
    assert {client.get("/health", headers={"Host": host}).status_code for host in hosts} == {status}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {"Sec-Fetch-Site": "none"}),
        (200, {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}),
        (403, {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"}),
        (200, {"Origin": "http://127.0.0.1:3000"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
    ],
)
def test_pages_of_other_sites_are_refused(client, status, headers):
    assert client.get("/health", headers=headers).status_code == status


def test_the_body_has_a_maximum_size(client):
    body = b'{"model": "tiny", "prompt": "1"}'.ljust(server.MAX_BYTES)
    assert client.post("/v1/completions", content=body).status_code == 200
    assert client.post("/v1/completions", content=body + b" ").status_code == 413
    # Without a Content-Length, the bytes are counted.
    assert client.post("/v1/completions", content=iter([body, b" "])).status_code == 413


def test_other_routes(client):
    for method, path, status in (("GET", "/v1/completions", 405), ("POST", "/v1/responses", 404)):
        response = client.request(method, path)
        assert response.status_code == status
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert response.json()["error"]["message"].startswith(f"{method} {path}: ")


def test_a_defect_gives_an_error_without_traceback(client, model, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("secret")

    with monkeypatch.context() as patch:
        patch.setattr(model, "complete", fail)
        response = client.post("/v1/completions", json={"model": NAME, "prompt": "1"})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "secret" not in response.text
    assert choices(client, prompt="1")


def test_a_body_must_arrive_in_time(monkeypatch):
    async def receive():
        await asyncio.sleep(PATIENCE)

    monkeypatch.setattr(server, "PATIENCE", 0.01)
    with pytest.raises(ApiError) as caught:
        asyncio.run(server.body_of(Request({"type": "http"}, receive)))
    assert caught.value.status_code == 408


def test_clients_that_leave_or_send_nonsense_do_no_harm(port, official):
    begun = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    for sent in (begun, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"no HTTP\r\n\r\n"):
        with closing(socket.create_connection(("127.0.0.1", port))) as connection:
            connection.sendall(sent)
    assert official.completions.create(model=NAME, prompt="1").choices


def test_connections_beyond_the_limit_get_status_503(port, official):
    with ExitStack() as stack:
        for _ in range(server.MAX_CONNECTIONS):
            last = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), PATIENCE)))
        last.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert last.recv(1000).startswith(b"HTTP/1.1 503 ")
    # The official client tries again, at last every eight seconds.
    assert official.with_options(max_retries=PATIENCE // 8).completions.create(model=NAME, prompt="1").choices
