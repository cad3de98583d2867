import json
import re

import pytest
import yaml

from cadmus.config import parse_config
from cadmus.errors import InputError
from cadmus.llm import batches, direct
from cadmus.llm.client import connect
from cadmus.llm.submit import submit
from tests.checkout import ROOT
from tests.llm.runs import outcomes, posts
from tests.llm.solver import solve


@pytest.mark.parametrize(
    ("llm", "message"),
    [
        ({"symbols": ["greek"]}, "llm.symbols.0: must be 'normal' or 'alternate', got 'greek'"),
        ({"models": ["a", "a"]}, "llm.models: duplicate 'a'"),
        ({"max_output_tokens": [8, 8]}, "llm.max_output_tokens: duplicate 8"),
        ({"max_output_tokens": []}, "llm.max_output_tokens: "),
        ({"max_cost_usd": -1}, "llm.max_cost_usd: "),
        ({"grid_programs_per_pair": 11}, "llm.grid_programs_per_pair: must be at most evaluate.grid"),
        ({"max_cost": 1}, "llm.max_cost: no such key; did you mean 'max_cost_usd'"),
    ],
)
def test_bad_config(llm, message):
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text())
    with pytest.raises(InputError, match=re.escape(message)):
        parse_config({**values, "evaluate": {}, "llm": llm}, "x.yaml")


def test_config_without_models(make_run):
    run = make_run(prepared=False)
    for step in ("prepare", "estimate", "submit", "collect"):
        assert "llm.models: names no model" in run.refused(step)


def test_submit_respects_the_cost_cap(make_run, start_server):
    server = start_server()
    run = make_run("chat", max_cost_usd=0.01)
    assert "llm.max_cost_usd: 0.01 USD may not be enough" in run.refused("submit")
    assert not server.stats.arrivals
    needed = json.loads(run.step("estimate", "--json"))["usd"]
    run.configure(max_cost_usd=round(needed + 0.01, 2))
    run.step("submit")
    # What was spent counts.
    run.configure(max_output_tokens=[64, 128], max_cost_usd=round(needed, 2))
    run.step("prepare")
    assert "are spent or under way" in run.refused("submit")


def test_library_respects_the_cost_cap(make_run, start_server):
    server = start_server()
    run = make_run("chat", "batch", max_cost_usd=0.01)
    comparison = run.comparison()
    with comparison.writing(comparison.names), connect() as connected:
        with pytest.raises(InputError, match=r"llm\.max_cost_usd: 0\.01 USD may not be enough"):
            direct.send(comparison, ["chat"])
        with pytest.raises(InputError, match=r"llm\.max_cost_usd: 0\.01 USD may not be enough"):
            batches.submit(connected, comparison, "batch")
    with pytest.raises(InputError, match=r"llm\.max_cost_usd: 0\.01 USD may not be enough"):
        submit(comparison)
    assert not server.stats.arrivals


def test_replies_of_two_servers_are_not_mixed(make_run, start_server):
    start_server()
    run = make_run("chat", symbols=["normal"])
    run.step("submit")
    run.configure(symbols=["normal", "alternate"])
    run.step("prepare")
    other = start_server()
    assert "has replies of http://127.0.0.1" in run.refused("submit")
    assert not posts(other)


def test_concurrent_submissions_are_rejected(make_run, start_server):
    start_server()
    run = make_run("chat")
    with run.comparison().writing(["chat"]):
        assert "in use by another `cadmus llm`" in run.refused("submit")


def vllm_line(line, **changes):
    """A line as ``vllm run-batch`` writes it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": solve(line["body"])}}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{**choice, "finish_reason": "stop"}]}
    response = {"status_code": 200, "request_id": "vllm-batch-1", "body": body}
    return {"id": "vllm-1", "custom_id": line["custom_id"], "response": response, "error": None, **changes}


def test_results_from_vllm(make_run, tmp_path):
    run = make_run("chat-batch")
    lines = [vllm_line(line) for line in run.requests("chat-batch")]
    error = {"code": "BadRequest", "message": "no"}
    lines[0] |= {"response": {"status_code": 400, "request_id": "x", "body": None}, "error": error}
    lines[1] |= {"response": {"status_code": 500, "request_id": "x", "body": None}, "error": error}
    file = tmp_path / "replies.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in reversed(lines)))
    assert "96 answers, 2 errors" in run.step("collect", file)
    counts = outcomes(run.score())
    assert (counts["rejected"], counts["unanswered"]) == (1, 1)
    assert "96 repeated" in re.sub(r"97 repeated", "96 repeated", run.step("collect", file))


def test_results_of_another_run(make_run, tmp_path):
    run = make_run("chat-batch")
    lines = [vllm_line(line) for line in run.requests("chat-batch")]
    file = tmp_path / "replies.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    run.configure(max_output_tokens=[128], grid_max_output_tokens=128)
    run.step("prepare")
    assert "no line answers a request of this run" in run.refused("collect", file)
    assert "nothing.jsonl: No such file" in run.refused("collect", tmp_path / "nothing.jsonl")
    file.write_bytes(b"\xff")
    assert "not UTF-8" in run.refused("collect", file)
    file.write_text("nonsense\n")
    assert "no line answers a request" in run.refused("collect", file)
    assert outcomes(run.score())["unanswered"] == 98


def test_cut_results_are_replaced_by_whole_ones(make_run, tmp_path):
    """As after `vllm run-batch` was killed, and run again."""
    run = make_run("chat-batch")
    text = "\n".join(json.dumps(vllm_line(line)) for line in run.requests("chat-batch"))
    file = tmp_path / "replies.jsonl"
    file.write_text(text[:-30])
    assert "97 answers, 1 malformed" in run.step("collect", file)
    assert outcomes(run.score())["malformed"] == 1
    file.write_text(text)
    assert "1 answers, 97 repeated" in run.step("collect", file)
    assert outcomes(run.score())["malformed"] == 0
    assert "98 repeated" in run.step("collect", file)
