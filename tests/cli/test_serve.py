"""``cadmus serve``: errors at its start."""

import socket

from tests.commands import invoke, refused


def test_server_that_cannot_start(export):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        message = refused("serve", model=export, device="cpu", port=taken)
    assert f"cannot listen on 127.0.0.1, port {taken}: Address already in use" in message
    for host in ("no.such.host.invalid", "." * 300, "x" * 300):
        assert f"cannot listen on {host}, port" in refused("serve", model=export, device="cpu", host=host)
    assert "--allow-host a*: a * must be all of it" in refused("serve", model=export, allow_host="a*")


def test_control_characters_of_a_name_are_escaped(export, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    done = invoke("serve", model=export, port=0, name="a\x1b[2J\x07")
    assert done.output.startswith(r"a\x1b[2J\x07 is served at http")
