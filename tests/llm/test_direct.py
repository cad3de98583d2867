"""Requests sent one by one, to a server that fails, asks to wait or is interrupted."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.llm import direct
from cadmus.llm.prompt import translate
from cadmus.vm import reference
from tests.checkout import ROOT
from tests.llm.runs import KEY, PAIRS, expected_outcomes, outcomes, seen
from tests.llm.server import fetch_stats, request_key
from tests.llm.solver import errs


@pytest.mark.parametrize("name", ["chat", "effort", "responses", "plain"])
def test_score_matches_the_served_answers(make_run, start_server, name):
    server = start_server()
    run = make_run(name)
    run.step("submit")
    answers = run.score()
    assert outcomes(answers) == expected_outcomes(run, name)
    assert 0 < outcomes(answers)["wrong"] < len(answers) / 4
    assert set(seen(server, run, name)) == {1}
    assert "nothing is left to send" in run.step("submit")
    assert set(seen(server, run, name)) == {1}
    for row in answers.head(20).iter_rows(named=True):
        assert row["completion"] in translate("<>=", row["symbols"])
        assert reference.run(row["program"]).true
    if name != "plain":
        assert answers["usd"].sum() > 0


FAULTS = {
    "rate_limited": 0.05,
    "server_error": 0.1,
    "unavailable": 0.05,
    "dropped": 0.05,
    "dropped_halfway": 0.05,
    "malformed": 0.05,
    "truncated": 0.1,
    "refused": 0.1,
    "filtered": 0.05,
    "rejected": 0.1,
}


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_server_failures_change_no_answer(make_run, start_server, monkeypatch, name):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.01)
    server = start_server(only="POST", **FAULTS)
    run = make_run(name)
    told = run.step("submit")
    answers = run.score()
    counts = outcomes(answers)
    assert all(server.stats.faults[fault] for fault in FAULTS)
    assert min(counts[outcome] for outcome in ("truncated", "refused", "rejected")) > 2
    assert counts["unanswered"] == 0
    # Neither the half of a reply nor a damaged one is asked for again.
    lost = counts["malformed"]
    assert lost == server.stats.faults["malformed"] + server.stats.faults["dropped_halfway"]
    assert f"{len(answers) - counts['rejected'] - lost} answered, {counts['rejected']} rejected" in told
    for line, row in zip(run.requests(name), answers.iter_rows(named=True), strict=True):
        if row["outcome"] in ("correct", "wrong"):
            assert (row["outcome"] == "wrong") == errs(line["body"])
    # The server counts only whole replies.
    billed = server.stats.billed
    keys = [request_key(line["url"], line["body"]) for line in run.requests(name)]
    answered = ~answers["outcome"].is_in(["rejected", "malformed"])
    assert [billed[key] == 1 for key in keys] == answered.to_list()
    assert KEY not in "".join(path.read_text() for path in (run.directory / "llm").rglob("*.jsonl"))


@pytest.mark.parametrize("retry_after", ["0.5", "date", "soon", None, "-3"])
def test_retry_after_is_respected(make_run, start_server, monkeypatch, retry_after):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.01)
    if retry_after == "date":
        retry_after = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
    server = start_server(only="POST", rate_limited=0.2, retry_after=retry_after)
    run = make_run("chat", symbols=["normal"])
    run.step("submit")
    assert server.stats.faults["rate_limited"] > 0
    assert server.stats.early_retries == 0
    assert outcomes(run.score())["unanswered"] == 0


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"insufficient_quota": 1}, "the quota of this key is used up"),
        ({"rate_limited": 1, "retry_after": "90000"}, "asks to wait 90000 s"),
        ({"rejected": 1}, "rejects every request to 'gpt-test'"),
    ],
)
def test_sending_stops_if_the_server_rejects_everything(make_run, start_server, faults, message):
    server = start_server(only="POST", **faults)
    run = make_run("chat", concurrency=4)
    assert message in run.refused("submit")
    assert sum(seen(server, run, "chat")) <= direct.REJECTIONS + 4


def test_persistent_failures_are_left_for_the_next_submit(make_run, start_server, monkeypatch):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(direct, "ATTEMPTS", 2)
    server = start_server(only="POST", server_error=0.5)
    run = make_run("chat")
    told = run.refused("submit")
    left = outcomes(run.score())["unanswered"]
    assert f"{left} of {2 * PAIRS} requests have no answer (last failure: " in told
    assert 0 < left < 2 * PAIRS
    assert "(status 500)" in told
    for _ in range(20):
        if "nothing is left" in CliRunner().invoke(cadmus, run.arguments("submit")).output:
            break
    assert outcomes(run.score()) == expected_outcomes(run, "chat")
    assert set(server.stats.billed.values()) == {1}


def test_concurrency_and_requests_per_minute(make_run, start_server):
    server = start_server(latency=0.02)
    run = make_run("chat", concurrency=3, symbols=["normal"])
    run.step("submit")
    assert server.stats.max_concurrent == 3
    server = start_server()
    run.configure(models=["effort"], requests_per_minute=1200)
    run.step("prepare")
    run.step("submit")
    sent = [second for second, place, _ in server.stats.arrivals if place.startswith("POST")]
    assert len(sent) == PAIRS
    assert sent[-1] - sent[0] > 0.9 * (PAIRS - 1) * 60 / 1200


@pytest.fixture
def slow_server(monkeypatch, tmp_path):
    """A server in its own process, which outlives a killed client."""
    command = [sys.executable, "-m", "tests.llm.server", "--answer", "tests.llm.solver:solve", "--key", KEY]
    faults = json.dumps({"latency": 0.02})
    process = subprocess.Popen(
        [*command, "--print-port", "--faults", faults, "--idempotent"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    yield url
    process.send_signal(signal.SIGTERM)
    process.wait()
    process.stdout.close()


def wait_for(url, requests):
    for _ in range(3000):
        if fetch_stats(url).seen.total() > requests:
            return
        time.sleep(0.01)
    raise AssertionError("the server saw too little")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_submission_resumes_without_duplicates(make_run, slow_server, number):
    run = make_run("chat", concurrency=4)
    process = run.start("submit")
    wait_for(slow_server, 20)
    process.send_signal(number)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1, output
    assert re.search(r"stopped with \d+ requests left; run the command again to resume", output)
    before = fetch_stats(slow_server).seen
    assert 20 < len(before) < 2 * PAIRS
    assert outcomes(run.score())["unanswered"] == 2 * PAIRS - sum(
        before[request_key(line["url"], line["body"])] for line in run.requests("chat")
    )
    run.step("submit")
    counted = fetch_stats(slow_server).seen
    assert {counted[request_key(line["url"], line["body"])] for line in run.requests("chat")} == {1}
    assert outcomes(run.score()) == expected_outcomes(run, "chat")


def test_killed_submission_loses_no_reply(make_run, slow_server):
    concurrency = 4
    run = make_run("chat", concurrency=concurrency)
    kills = 0
    while True:
        process = run.start("submit")
        try:
            output, _ = process.communicate(timeout=1.0 + 0.25 * kills)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            continue
        break
    assert process.returncode == 0, output
    assert kills
    stats = fetch_stats(slow_server)
    keys = [request_key(line["url"], line["body"]) for line in run.requests("chat")]
    # Only requests under way at a kill were resent, with the same idempotency key, which is charged once.
    assert 0 <= sum(stats.seen[key] - 1 for key in keys) <= kills * concurrency
    assert {stats.billed[key] for key in keys} == {1}
    assert all(len(set(stats.idempotency_keys[key])) == 1 for key in keys)
    assert outcomes(run.score()) == expected_outcomes(run, "chat")
    # Requests without a reply count as charged.
    unheard = run.comparison().replies["chat"].unheard
    cost = json.loads(run.step("estimate", "--json"))["models"]["chat"]
    assert (cost["awaited_usd"] > 0) == bool(unheard.total())


def test_truncated_line_spoils_only_its_own_reply(make_run, start_server):
    server = start_server()
    run = make_run("chat")
    run.step("submit")
    path = run.directory / "llm/replies/chat.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert outcomes(run.score())["malformed"] == 1
    assert "nothing is left to send" in run.step("submit")
    run.step("submit", "--again", "malformed")
    assert sorted(seen(server, run, "chat"))[-2:] == [1, 2]
    assert outcomes(run.score()) == expected_outcomes(run, "chat")
