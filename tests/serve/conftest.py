"""Fixtures: a small model, a test client of its server, and the command in a process of its own."""

import openai
import pytest
from starlette.testclient import TestClient

from cadmus.model.inference import Cadmus
from cadmus.serve.completions import completion_server
from tests.cli.exports import small_export
from tests.commands import served
from tests.serve.asking import LOCAL, NAME


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    return small_export(tmp_path_factory.mktemp("exports") / NAME)


@pytest.fixture(scope="session")
def model(export):
    return Cadmus.load(export)


@pytest.fixture(scope="session")
def client(model):
    app = completion_server(model, NAME, ["models.example"])
    with TestClient(app, base_url=LOCAL, raise_server_exceptions=False) as test_client:
        yield test_client


@pytest.fixture(scope="session")
def port(export):
    """Port of the command in a process of its own, stopped with Ctrl-C."""
    announced = rf"^{NAME} is served at http://127\.0\.0\.1:(\d+)/v1 \(Ctrl-C stops\)\n$"
    with served("serve", "--model", export, "--port", 0, "--device", "cpu", line=announced) as found:
        yield int(found)


@pytest.fixture(scope="session")
def official(port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as made:
        yield made
