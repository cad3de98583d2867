import json
import sys

import pytest

from tests.llm.api import Api
from tests.llm.runs import KEY, PAIRS, posts, seen


def test_missing_package(make_run, monkeypatch):
    run = make_run("chat")
    for name in (
        "cadmus.llm.submit",
        "cadmus.llm.batches",
        "cadmus.llm.direct",
        "cadmus.llm.client",
        "openai",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    told = "cadmus llm needs openai, which is not installed; pip install 'cadmus-synthesis[llm]'"
    assert run.refused("submit") == told
    # The other steps do without it.
    run.step("estimate")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY is not set; set it"),
        ({"OPENAI_API_KEY": "two words"}, "OPENAI_API_KEY: has characters that a key cannot have"),
        ({"OPENAI_API_KEY": "schlüssel"}, "OPENAI_API_KEY: has characters that a key cannot have"),
        ({"OPENAI_API_KEY": "sk-another-5678"}, "rejects the key in OPENAI_API_KEY"),
        ({"OPENAI_BASE_URL": "localhost:1"}, "OPENAI_BASE_URL: must be a URL such as http"),
        ({"OPENAI_BASE_URL": "http://["}, "OPENAI_BASE_URL: must be a URL such as http"),
        ({"OPENAI_BASE_URL": "http://localhost:99999"}, "OPENAI_BASE_URL: must be a URL such as http"),
        ({"OPENAI_BASE_URL": "http://:80"}, "OPENAI_BASE_URL: must be a URL such as http"),
        ({"OPENAI_BASE_URL": "http://a b/v1"}, "OPENAI_BASE_URL: must be a URL such as http"),
        ({"OPENAI_BASE_URL": "http://u:pw@127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1: Connection error"),
    ],
)
def test_bad_key_or_server(make_run, start_server, monkeypatch, variables, message):
    monkeypatch.setattr("cadmus.llm.client.RETRIES", 0)
    server = start_server()
    run = make_run("chat")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = run.refused("submit")
    assert message in told
    assert "5678" not in told
    assert not posts(server)
    assert not any("sent" in line for line in run.replies("chat"))


def test_model_missing_on_the_server(make_run, start_server):
    server = start_server()
    run = make_run("chat", "stranger")
    assert "has no model 'gpt-unknown', only gpt-test; nothing was sent" in run.refused("submit")
    assert "--model nobody: not in llm.models; there are chat, stranger" in run.refused(
        "submit", "--model", "nobody"
    )
    assert not posts(server)
    run.step("submit", "--model", "chat")
    assert seen(server, run, "chat") == [1] * 2 * PAIRS


def test_key_is_in_no_file(make_run, start_server):
    """Even if a server echoes it, as the test server does for an unknown key."""
    start_server(server_error=0.2, only="POST", rejected=0.1)
    run = make_run("chat", "batch")
    run.step("submit")
    run.step("collect")
    files = [path for path in run.directory.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("listed", [[], {"data": [5]}, {"data": {"id": []}}, "gpt-test"], ids=repr)
def test_odd_list_of_models(make_run, start_server, monkeypatch, listed):
    route = Api.route

    def odd(api, method, target, *arguments):
        if target.startswith("/v1/models"):
            return json.dumps(listed).encode()
        return route(api, method, target, *arguments)

    monkeypatch.setattr(Api, "route", odd)
    server = start_server()
    run = make_run("chat")
    assert "nothing was sent" in run.refused("submit")
    assert not posts(server)
