"""``cadmus serve``: errors at its start."""

import socket

import pytest
from click.testing import CliRunner

from cadmus.cli.serve import serve as command
from cadmus.errors import InputError
from tests.cli.exports import small_export


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return small_export(tmp_path_factory.mktemp("exports") / "tiny")


def declined(*arguments):
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_server_that_cannot_start(export, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        message = declined("--model", export, "--device", "cpu", "--port", taken)
    assert f"cannot listen on 127.0.0.1, port {taken}: Address already in use" in message
    for host in ("no.such.host.invalid", "." * 300, "x" * 300):
        assert f"cannot listen on {host}, port" in declined(
            "--model", export, "--device", "cpu", "--host", host
        )
    assert "--allow-host a*: a * must be all of it" in declined("--model", export, "--allow-host", "a*")
    assert "is not a model export" in declined("--model", tmp_path)
    assert "--device abacus: not available" in declined("--model", export, "--device", "abacus")
    monkeypatch.setattr("cadmus.model.DEFAULT_MODEL", tmp_path / "none")
    assert ": no model; pass one with --model DIR" in declined()


def test_control_characters_of_a_name_are_escaped(export, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    done = CliRunner().invoke(command, ["--model", str(export), "--port", "0", "--name", "a\x1b[2J\x07"])
    assert done.output.startswith(r"a\x1b[2J\x07 is served at http")
