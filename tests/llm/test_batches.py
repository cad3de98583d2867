import re

import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.llm import batches
from tests.llm.api import Api, ApiError
from tests.llm.runs import expected_outcomes, outcomes, seen
from tests.llm.solver import errs


def submit_and_collect(run):
    run.step("submit")
    return run.step("collect", "--wait", "--every", "0.01")


@pytest.mark.parametrize("name", ["batch", "chat-batch"])
def test_batch_lines_are_matched_by_request(make_run, start_server, name):
    server = start_server(
        shuffled=True, duplicated=0.2, foreign_lines=0.2, polls=2, truncated=0.1, refused=0.1
    )
    run = make_run(name)
    told = submit_and_collect(run)
    assert "in_progress" in told or "validating" in told
    assert "completed, 98 of 98" in told
    assert re.search(r"98 answers, \d+ repeated, \d+ unmatched", told)
    assert len(server.stats.batches) == 1
    answers = run.score()
    for line, row in zip(run.requests(name), answers.iter_rows(named=True), strict=True):
        if row["outcome"] not in ("truncated", "refused"):
            assert row["outcome"] == ("wrong" if errs(line["body"]) else "correct")
    assert min(outcomes(answers)[fault] for fault in ("truncated", "refused")) > 2
    assert "no batch is under way" in run.step("collect")
    assert "nothing is left to send" in run.step("submit")
    assert set(seen(server, run, name)) == {1}


LOST = [
    {"dropped_lines": 0.3},
    {"error_lines": 0.3},
    {"expired": 0.7, "seed": 1},
    {"dropped_lines": 0.1, "error_lines": 0.2, "duplicated": 0.2},
]


@pytest.mark.parametrize("faults", LOST, ids=lambda faults: "+".join(faults))
def test_requests_unanswered_by_a_batch_are_resent(make_run, start_server, faults):
    server = start_server(**faults)
    run = make_run("batch")
    rounds = 0
    while True:
        run.step("submit")
        done = CliRunner().invoke(cadmus, run.arguments("collect", "--wait", "--every", "0.01"))
        rounds += 1
        if done.exception is None or isinstance(done.exception, SystemExit):
            break
        assert re.search(
            r"\d+ requests have no answer; `cadmus llm submit` resends them", str(done.exception)
        )
        assert rounds < 20
    assert rounds > 1
    assert outcomes(run.score()) == expected_outcomes(run, "batch")
    assert len(server.stats.batches) == rounds


@pytest.mark.parametrize(
    "faults",
    [{"missing_id": 0.2}, {"malformed_lines": 0.2, "duplicated": 0.2}],
    ids=lambda faults: min(faults),
)
def test_damaged_lines_are_resent_only_on_request(make_run, start_server, faults):
    server = start_server(**faults)
    run = make_run("batch")
    submit_and_collect(run)
    assert outcomes(run.score())["malformed"] > 3
    assert outcomes(run.score())["unanswered"] == 0
    assert "nothing is left to send" in run.step("submit")
    assert set(seen(server, run, "batch")) == {1}
    for _ in range(20):
        if not outcomes(run.score())["malformed"]:
            break
        run.step("submit", "--again", "malformed")
        run.step("collect", "--wait", "--every", "0.01")
    assert outcomes(run.score()) == expected_outcomes(run, "batch")


@pytest.mark.parametrize("empty", [False, True])
def test_batch_with_only_an_error_file(make_run, start_server, empty):
    start_server(only_errors=1, empty_ids=empty)
    run = make_run("batch")
    run.step("submit")
    told = run.refused("collect", "--wait", "--every", "0.01")
    assert "98 requests have no answer" in told
    assert outcomes(run.score())["unanswered"] == 98
    errors = [line for line in run.replies("batch") if "error" in line]
    assert len(errors) == 98
    assert all(line["error"]["message"] for line in errors)


def test_rejected_requests_of_a_batch(make_run, start_server):
    start_server(rejected=0.2)
    run = make_run("batch")
    submit_and_collect(run)
    counts = outcomes(run.score())
    assert counts["rejected"] > 5
    assert counts["unanswered"] == 0
    assert "nothing is left to send" in run.step("submit")


def test_failed_batch_shows_its_error(make_run, start_server):
    start_server(line_limit=10)
    run = make_run("batch")
    run.step("submit")
    done = CliRunner().invoke(cadmus, run.arguments("collect", "--wait", "--every", "0.01"))
    assert re.search(r"batch \S+: failed, 0 of 98: \w+", done.output)


def test_requests_are_split_into_batches(make_run, start_server, monkeypatch):
    monkeypatch.setattr(batches, "MAX_REQUESTS", 40)
    server = start_server(line_limit=40)
    run = make_run("batch")
    submit_and_collect(run)
    assert len(server.stats.batches) == 3
    assert outcomes(run.score()) == expected_outcomes(run, "batch")
    monkeypatch.setattr(batches, "MAX_BYTES", 60_000)
    run.configure(max_output_tokens=[64, 128])
    run.step("prepare")
    server = start_server(byte_limit=60_000)
    (run.directory / "llm/replies/batch.jsonl").unlink()
    submit_and_collect(run)
    assert outcomes(run.score()) == expected_outcomes(run, "batch")


def test_unrecorded_batch_is_found(make_run, start_server):
    """As after a kill between the creation of a batch and its record."""
    server = start_server(polls=1)
    run = make_run("batch")
    run.step("submit")
    (run.directory / "llm/replies/batch.jsonl").unlink()
    run.step("submit")
    assert len(server.stats.batches) == 1
    run.step("collect", "--wait", "--every", "0.01")
    assert outcomes(run.score()) == expected_outcomes(run, "batch")


@pytest.mark.parametrize("fault", ["dropped", "dropped_halfway", "malformed", "server_error"])
def test_failed_creation_makes_no_second_batch(make_run, start_server, monkeypatch, fault):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server = start_server(only="POST /v1/batches$", **{fault: 0.99})
    run = make_run("batch")
    if fault == "server_error":
        assert "the batch could not be created" in run.refused("submit")
        assert not server.stats.batches
        return
    run.step("submit")
    assert len(server.stats.batches) == 1
    run.step("collect", "--wait", "--every", "0.01")
    assert outcomes(run.score()) == expected_outcomes(run, "batch")


def test_killed_collection_rereads_the_results(make_run, start_server):
    server = start_server()
    run = make_run("batch")
    submit_and_collect(run)
    path = run.directory / "llm/replies/batch.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:30]))
    assert "69 answers, 29 repeated" in run.step("collect")
    assert outcomes(run.score()) == expected_outcomes(run, "batch")
    assert len(server.stats.batches) == 1


def test_results_of_an_earlier_config_are_stored(make_run, start_server):
    server = start_server()
    run = make_run("batch")
    run.step("submit")
    run.configure(max_output_tokens=[32], grid_max_output_tokens=32)
    run.step("prepare")
    assert "98 unmatched" in run.step("collect")
    run.configure(max_output_tokens=[64], grid_max_output_tokens=64)
    run.step("prepare")
    assert "nothing is left to send" in run.step("submit")
    assert outcomes(run.score()) == expected_outcomes(run, "batch")
    assert set(seen(server, run, "batch")) == {1}


def test_batch_that_may_exist_is_not_created_again(make_run, start_server, monkeypatch):
    """On a server that cannot tell, because it does not list batches."""

    def unlisted(api, query):
        raise ApiError(404, "Not found.", None)

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(Api, "_list", unlisted)
    server = start_server(only="POST /v1/batches$", dropped=1)
    run = make_run("batch")
    assert "the batch may have been created" in run.refused("submit")
    assert len(server.stats.batches) == 1
