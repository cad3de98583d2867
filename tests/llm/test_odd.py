"""Odd replies: each is stored, graded and paid for once."""

import errno
import json
import os

import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.llm import direct
from cadmus.llm.outcomes import OUTCOMES
from tests.llm.api import Api
from tests.llm.odd import DEEP, KINDS, MALFORMED, UNCOUNTED, UNPARSED, Odd, http
from tests.llm.runs import PAIRS, expected_outcomes, outcomes, seen
from tests.llm.server import request_key
from tests.llm.solver import errs


def invoke(run, *arguments):
    return CliRunner().invoke(cadmus, run.arguments(*arguments))


def models_of(run):
    return json.loads(run.step("estimate", "--json"))["models"]


def test_odd_replies_are_paid_once(make_run, start_server):
    odd = Odd()
    server = start_server(odd=odd)
    run = make_run("chat")
    assert len(KINDS) >= 20
    first, second = invoke(run, "submit"), invoke(run, "submit")
    assert (first.exit_code, second.exit_code) == (0, 0)
    number = len(MALFORMED)
    assert f"{2 * PAIRS - number} answered, 0 rejected, 0 failed, {number} malformed" in first.output
    assert f"chat: {number} malformed, kept in" in second.output
    assert "nothing is left to send" in second.output
    assert set(odd.kinds.values()) == set(KINDS)
    assert seen(server, run, "chat") == [1] * 2 * PAIRS
    answers = run.score()
    stored = {line["key"]: line for line in run.replies("chat") if "key" in line}
    for line, row in zip(run.requests("chat"), answers.iter_rows(named=True), strict=True):
        key = request_key(line["url"], line["body"])
        kind = odd.kinds.get(key)
        expected = "wrong" if errs(line["body"]) else "correct"
        if kind in MALFORMED:
            expected = "malformed"
        elif kind in UNPARSED:
            expected = "unparsed"
        assert row["outcome"] == expected, kind
        counted = kind not in MALFORMED | UNCOUNTED
        assert (row["output_tokens"] is not None) == counted, kind
        # Without a count, the upper bound.
        assert row["usd"] > (0 if counted else 64 * 10 / 1e6)
        if kind:
            raw = stored[line["custom_id"]]["raw"].encode("utf-8", "surrogateescape")
            assert raw == odd.sent[key].partition(b"\r\n\r\n")[2], kind
    counts = outcomes(answers)
    assert counts["malformed"] == number
    assert counts["unparsed"] == len(UNPARSED)
    table = run.step("score", "--output", run.directory / "answers.parquet").splitlines()
    column = OUTCOMES.index("malformed") + 4
    assert table[0].split()[column] == "malformed"
    assert sum(int(row.split()[column]) for row in table[1:3]) == number
    assert models_of(run)["chat"]["malformed"] == number
    ask_again(run, server, odd)


def ask_again(run, server, odd):
    """Malformed replies are asked for again only on request, and what they cost stays counted."""
    before = models_of(run)["chat"]
    done = invoke(run, "submit", "--again", "malformed")
    assert done.exit_code == 0
    for line in run.requests("chat"):
        key = request_key(line["url"], line["body"])
        asked = 2 if odd.kinds.get(key) in MALFORMED else 1
        assert server.stats.seen[key] == asked
        # With another key, or a server that knows it would repeat the reply.
        assert len(set(server.stats.idempotency_keys[key])) == asked
    assert outcomes(run.score())["malformed"] == 0
    after = models_of(run)["chat"]
    assert (after["malformed"], after["to_send"]) == (0, 0)
    assert after["spent_usd"] > before["spent_usd"]
    assert "nothing is left to send" in run.step("submit", "--again", "malformed")


def test_asking_again_respects_the_cost_cap(make_run, start_server):
    server = start_server(odd=Odd())
    run = make_run("chat")
    run.step("submit")
    spent = models_of(run)["chat"]["spent_usd"]
    run.configure(max_cost_usd=spent + 0.001)
    assert "llm.max_cost_usd" in run.refused("submit", "--again", "malformed")
    assert set(seen(server, run, "chat")) == {1}
    assert models_of(run)["chat"]["malformed"] == len(MALFORMED)


def test_sending_stops_if_no_reply_has_a_known_shape(make_run, start_server):
    server = start_server(odd=lambda key, content: http(b"<html>Please log in</html>"))
    run = make_run("chat", concurrency=4)
    assert "no reply to 'gpt-test' has a known shape; they are kept in" in run.refused("submit")
    assert sum(seen(server, run, "chat")) <= direct.REJECTIONS + 4
    assert outcomes(run.score())["malformed"] == sum(seen(server, run, "chat"))


def test_overlong_reply_is_not_received_to_its_end(make_run, start_server, monkeypatch):
    monkeypatch.setattr(direct, "MOST_BYTES", 1_000)
    overlong = iter([http(b"x" * 100_000)])
    server = start_server(odd=lambda key, content: next(overlong, None))
    run = make_run("chat", symbols=["normal"])
    run.step("submit")
    assert outcomes(run.score())["malformed"] == 1
    assert set(seen(server, run, "chat")) == {1}
    (line,) = (line for line in run.replies("chat") if "cut" in line)
    assert len(line["raw"]) == 1_000


@pytest.mark.parametrize("usd_left", [0.0, 0.01])
def test_attempts_after_lost_connections_count_against_the_cap(make_run, start_server, monkeypatch, usd_left):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.001)
    server = start_server(only="POST", dropped=1)
    run = make_run("chat", symbols=["normal"], concurrency=1)
    (cost,) = models_of(run).values()
    run.configure(max_cost_usd=cost["to_send_usd"] + usd_left + 1e-6)
    told = run.refused("submit")
    assert "another attempt could exceed llm.max_cost_usd" in told
    each = cost["to_send_usd"] / PAIRS
    attempts = sum(seen(server, run, "chat"))
    assert PAIRS <= attempts <= PAIRS + usd_left / each * 1.1
    assert models_of(run)["chat"]["awaited_usd"] <= run.llm["max_cost_usd"]
    assert "may not be enough" in run.refused("submit")


def cut(line, text):
    return text[:-20]


def nameless(line, text):
    return text[text.index("response") :]


def with_id(custom_id):
    return lambda line, text: json.dumps({**json.loads(text), "custom_id": custom_id})


def with_response(response):
    return lambda line, text: json.dumps({**json.loads(text), "response": response})


def with_body(body):
    def odd(line, text):
        entry = json.loads(text)
        return json.dumps({**entry, "response": {**entry["response"], "body": body}})

    return odd


LINES = {
    "cut": cut,
    "deep": lambda line, text: text[:-1] + ', "x": ' + "[" * DEEP + "]" * DEEP + "}",
    "body null": with_body(None),
    "body a list": with_body([1]),
    "response a list": with_response([]),
    "response null": with_response(None),
    "no status": with_response({"body": {}}),
    "status a text": with_response({"status_code": "200", "body": {}}),
    "id within a list": lambda line, text: with_id([json.loads(text)["custom_id"]])(line, text),
    "id a list": with_id([]),
    "id a mapping": with_id({}),
    "id null": with_id(None),
    "no id": nameless,
}
"""Lines of the results of a batch that cannot be read."""


def test_odd_lines_of_a_batch_are_paid_once(make_run, start_server, monkeypatch):
    struck = {}

    def spoilt(api, line, entry):
        kinds = list(LINES)
        text = json.dumps(entry)
        if len(struck) < len(kinds):
            kind = struck[line.custom_id] = kinds[len(struck)]
            text = LINES[kind](line, text)
        yield text

    monkeypatch.setattr(Api, "_spoilt", spoilt)
    server = start_server()
    run = make_run("batch")
    assert invoke(run, "submit").exit_code == 0
    done = invoke(run, "collect", "--wait", "--every", "0.01")
    assert done.exit_code == 0, done.output
    assert f"batch: {2 * PAIRS - len(LINES)} answers, {len(LINES)} malformed, 4 unreadable" in done.output
    assert "nothing is left to send" in run.step("submit")
    assert set(seen(server, run, "batch")) == {1}
    assert len(server.stats.batches) == 1
    counts = outcomes(run.score())
    assert (counts["malformed"], counts["unanswered"]) == (len(LINES), 0)
    assert sum("stray" in line for line in run.replies("batch")) == 4
    monkeypatch.undo()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-4321-not-to-be-seen")
    assert invoke(run, "submit", "--again", "malformed").exit_code == 0
    assert invoke(run, "collect", "--wait", "--every", "0.01").exit_code == 0
    assert outcomes(run.score())["malformed"] == 0
    for line in run.requests("batch"):
        assert server.stats.seen[request_key(line["url"], line["body"])] == 1 + (line["custom_id"] in struck)


def test_results_that_are_a_page_are_fetched_again(make_run, start_server, monkeypatch):
    start_server()
    run = make_run("batch")
    run.step("submit")
    keep = Api._keep
    monkeypatch.setattr(Api, "_keep", lambda api, content, purpose: keep(api, b"<html>Log in", purpose))
    assert "its results are not JSON lines; run the command again" in run.refused("collect")
    counts = outcomes(run.score())
    assert (counts["malformed"], counts["unanswered"]) == (0, 2 * PAIRS)


def test_ledgers_of_earlier_versions_are_read(make_run, start_server):
    server = start_server()
    run = make_run("chat")
    run.step("submit")
    path = run.directory / "llm/replies/chat.jsonl"
    expected = run.score()
    lines = []
    for line in run.replies("chat"):
        if "raw" in line:
            line["body"] = json.loads(line.pop("raw"))
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    path.write_text("".join(lines))
    assert run.score().equals(expected)
    assert "nothing is left to send" in run.step("submit")
    assert set(seen(server, run, "chat")) == {1}


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "5",
        '"sent"',
        "null",
        "{}",
        "[" * DEEP,
        '{"sent": []}',
        '{"batch": "b", "keys": 3}',
        '{"key": {}}',
    ],
    ids=lambda line: line[:12],
)
def test_damaged_lines_of_a_ledger_are_skipped(make_run, start_server, line):
    server = start_server()
    run = make_run("chat", symbols=["normal"])
    run.step("submit")
    path = run.directory / "llm/replies/chat.jsonl"
    path.write_text(line + "\n" + path.read_text())
    assert "damaged lines skipped: 1" in run.step("estimate")
    assert outcomes(run.score())["unanswered"] == 0
    assert "nothing is left to send" in run.step("submit")
    assert set(seen(server, run, "chat")) == {1}


def test_full_disk_loses_no_reply(make_run, start_server, monkeypatch):
    server = start_server(latency=0.02)
    run = make_run("chat", concurrency=4)
    reserve = run.directory / "llm/replies/chat.reserve"
    write = os.write
    written = []

    def full(file, data):
        written.append(data)
        if len(written) > 40 and reserve.exists():
            assert reserve.stat().st_blocks * 512 >= 1 << 22
            # As much as fits.
            if len(written) % 2:
                return write(file, data[:7])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr("os.write", full)
    assert "chat.jsonl: No space left on device" in run.refused("submit")
    monkeypatch.setattr("os.write", write)
    sent = sum(seen(server, run, "chat"))
    assert 10 < sent < 2 * PAIRS
    assert outcomes(run.score())["unanswered"] == 2 * PAIRS - sent
    run.step("submit")
    assert set(seen(server, run, "chat")) == {1}
    assert outcomes(run.score()) == expected_outcomes(run, "chat")
    assert not reserve.exists()
