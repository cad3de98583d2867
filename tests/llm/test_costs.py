import json

import pytest

from tests.llm.runs import PAIRS


def test_estimate_is_an_upper_bound(make_run):
    run = make_run("chat")
    told = json.loads(run.step("estimate", "--json"))
    (cost,) = told["models"].values()
    requests = run.requests("chat")
    assert cost["requests"] == cost["to_send"] == 2 * PAIRS
    answers = len(requests) * 64 * 10 / 1e6
    prompts = sum(len(line["body"]["messages"][0]["content"].encode()) for line in requests) / 1e6
    # A token holds two bytes or more.
    assert answers + prompts / 4 < cost["to_send_usd"] < answers + prompts
    assert told["usd"] == pytest.approx(cost["to_send_usd"])
