"""Fixtures: a run of the comparison, and a server with faults on request."""

import pytest

from tests.checkout import ROOT
from tests.llm.runs import KEY, Run
from tests.llm.server import Faults, LlmServer
from tests.llm.solver import solve


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def make_run(*models, prepared=True, **llm):
        run = Run(tmp_path, *models, **llm)
        if prepared:
            run.step("prepare")
        return run

    return make_run


@pytest.fixture
def start_server(monkeypatch):
    servers = []

    def start_server(*arguments, answer=solve, odd=None, **faults):
        server = LlmServer(answer, Faults(**faults), KEY, *arguments, odd=odd)
        server.__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return server

    yield start_server
    for server in servers:
        server.__exit__(None, None, None)
