"""Fixtures: a small model, a test client of its server, and the command in a process of its own."""

import os
import re
import select
import signal
import subprocess
import sys

import openai
import pytest
from starlette.testclient import TestClient

from cadmus.model.inference import Cadmus
from cadmus.serve.application import application
from tests.checkout import ROOT
from tests.cli.exports import TRAINED_LENGTH, small_export
from tests.serve.requests import LOCAL, NAME, TIMEOUT


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    return small_export(tmp_path_factory.mktemp("exports") / NAME)


@pytest.fixture(scope="session")
def model(export):
    return Cadmus.load(export)


@pytest.fixture(scope="session")
def client(model):
    app = application(model, NAME, TRAINED_LENGTH)
    with TestClient(app, base_url=LOCAL, raise_server_exceptions=False) as test_client:
        yield test_client


@pytest.fixture(scope="session")
def port(export):
    """Port of the command in a process of its own, stopped with SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cadmus", "serve", "--model", export, "--port", "0", "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert select.select([process.stdout], [], [], TIMEOUT)[0], "no sign of life"
        line = process.stdout.readline()
        found = re.fullmatch(rf"{NAME} is served at http://127\.0\.0\.1:(\d+)/v1 \(Ctrl-C stops\)\n", line)
        assert found, (line, process.poll() is not None and process.stderr.read())
        yield int(found[1])
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, output, errors) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def official(port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as made:
        yield made
