"""The faulty server of these tests, as the official client sees it."""

import asyncio
import io
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.llm.api import ANSWERING
from tests.llm.server import Faults, LlmServer, fetch_stats, request_key

openai = pytest.importorskip("openai")

KEY = "sk-test-1234"


def answer(body: dict) -> str:
    return "Output: " + json.dumps(body.get("messages") or body.get("input") or body.get("prompt"))


@contextmanager
def serving(key=KEY, retries=0, idempotent=False, **faults):
    """A server with the faults, and a client of it."""
    with (
        LlmServer(answer, Faults(**faults), key=KEY, idempotent=idempotent) as server,
        # To load certificates takes most of the time of making a client.
        openai.DefaultHttpxClient(verify=False) as http,
        openai.OpenAI(base_url=server.url, api_key=key, max_retries=retries, http_client=http) as client,
    ):
        yield server, client


def chat(number=0, model="gpt-test"):
    return {"model": model, "messages": [{"role": "user", "content": str(number)}]}


def chat_key(number=0):
    return request_key("/v1/chat/completions", chat(number))


def strict(reply):
    """The client's own type, which it does not check replies against."""
    type(reply).model_validate(reply.model_dump(exclude_unset=True))
    return reply


def upload(client, count=40, lines=None):
    lines = lines or [
        {"custom_id": f"r{n}", "method": "POST", "url": ANSWERING[0], "body": chat(n)} for n in range(count)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return client.files.create(file=("in.jsonl", io.BytesIO(content)), purpose="batch")


def submit(client, file_id, **options):
    facts = {"input_file_id": file_id, "endpoint": ANSWERING[0], "completion_window": "24h"}
    return strict(client.batches.create(**facts, **options))


def run_batch(client, count=40):
    """An ended batch, and the lines of its output and its error file."""
    batch = submit(client, upload(client, count).id)
    batch = strict(client.batches.retrieve(batch.id))
    files = [
        client.files.content(name).text.splitlines() if name else []
        for name in (batch.output_file_id, batch.error_file_id)
    ]
    return batch, *files


def test_without_faults_every_endpoint_answers():
    with serving() as (server, client):
        assert [model.id for model in client.models.list()] == ["gpt-test"]
        reply = strict(client.chat.completions.create(**chat(5)))
        assert reply.choices[0].message.content == answer(chat(5))
        assert reply.choices[0].finish_reason == "stop"
        assert reply.usage.completion_tokens_details.reasoning_tokens == 7
        response = strict(client.responses.create(model="gpt-test", input="five"))
        assert (response.status, response.output_text) == ("completed", 'Output: "five"')
        assert response.usage.output_tokens_details.reasoning_tokens == 7
        text = strict(client.completions.create(model="gpt-test", prompt="five"))
        assert text.choices[0].text == 'Output: "five"'
        stats = server.stats
        assert stats.seen[chat_key(5)] == stats.billed[chat_key(5)] == 1
        assert stats.faults == {}
        assert fetch_stats(server.url) == stats


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        ("rate_limited", openai.RateLimitError, "rate_limit_exceeded"),
        ("insufficient_quota", openai.RateLimitError, "insufficient_quota"),
        ("server_error", openai.InternalServerError, None),
        ("unavailable", openai.InternalServerError, None),
        ("rejected", openai.BadRequestError, "invalid_prompt"),
        ("dropped", openai.APIConnectionError, None),
        ("dropped_halfway", openai.APIConnectionError, None),
        ("malformed", json.JSONDecodeError, None),
    ],
)
def test_faults_of_the_transport(fault, error, code):
    with serving(**{fault: 1}) as (server, client):
        with pytest.raises(error) as caught:
            client.chat.completions.create(**chat())
        assert getattr(caught.value, "code", None) == code
        assert server.stats.faults == {fault: 1}
        assert (server.stats.seen[chat_key()], server.stats.billed[chat_key()]) == (1, 0)


def test_a_retry_has_another_fate_unless_told_otherwise():
    def fates(**faults):
        with serving(server_error=0.5, **faults) as (_, client):
            found = []
            for number in [*range(20)] * 2:
                try:
                    client.chat.completions.create(**chat(number))
                    found.append(True)
                except openai.InternalServerError:
                    found.append(False)
        return found[:20], found[20:]

    first, second = fates()
    assert 0 < sum(first) < 20
    assert first != second
    assert (first, second) == fates()
    first, second = fates(always=["server_error"], seed=1)
    assert first == second
    assert 0 < sum(first) < 20
    with serving(rate_limited=0.5, retry_after="0.01", retries=20) as (server, client):
        for number in range(8):
            client.chat.completions.create(**chat(number))
        stats = server.stats
        assert [stats.billed[chat_key(number)] for number in range(8)] == [1] * 8
        assert stats.seen.total() == 8 + stats.faults["rate_limited"] > 8
        assert stats.early_retries == 0


def test_answers_cut_off_or_refused():
    with serving(truncated=1) as (_, client):
        replies = [strict(client.chat.completions.create(**chat(n))).choices[0] for n in range(12)]
        assert {reply.finish_reason for reply in replies} == {"length"}
        assert {bool(reply.message.content) for reply in replies} == {True, False}
        response = strict(client.responses.create(model="gpt-test", input="five"))
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    with serving(refused=1) as (_, client):
        message = client.chat.completions.create(**chat()).choices[0].message
        assert message.content is None
        assert message.refusal
        response = strict(client.responses.create(model="gpt-test", input="five"))
        assert response.output[-1].content[0].type == "refusal"
    with serving(filtered=1) as (_, client):
        assert client.chat.completions.create(**chat()).choices[0].finish_reason == "content_filter"
        response = strict(client.responses.create(model="gpt-test", input="five"))
        assert response.incomplete_details.reason == "content_filter"


def test_wrong_keys_models_and_paths():
    wrong = "sk-wrong-5678"
    with serving(key=wrong) as (_, client), pytest.raises(openai.AuthenticationError, match=wrong):
        client.chat.completions.create(**chat())
    with serving() as (_, client):
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(**chat(model="other"))
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError):
            client.batches.retrieve("batch_9")


@pytest.mark.parametrize("retry_after", ["0.8", "date", "soon", "nan", None])
def test_requests_before_the_time_told_are_counted(retry_after):
    told = formatdate(time.time() + 3, usegmt=True) if retry_after == "date" else retry_after
    waits = retry_after in ("0.8", "date")
    with serving(rate_limited=1, retry_after=told) as (server, client):
        for number in (1, 2, 1):
            with pytest.raises(openai.RateLimitError) as caught:
                client.chat.completions.create(**chat(number))
            assert caught.value.response.headers.get("retry-after") == told
        assert (server.stats.early_requests, server.stats.early_retries) == (2 * waits, waits)
        if retry_after == "0.8":
            time.sleep(0.85)
            with pytest.raises(openai.RateLimitError):
                client.chat.completions.create(**chat(2))
            assert server.stats.early_requests == 2


def test_an_idempotency_key_is_billed_once():
    with serving(idempotent=True) as (server, client):
        headers = {"Idempotency-Key": "one"}
        replies = [client.chat.completions.create(**chat(), extra_headers=headers) for _ in range(2)]
        assert replies[0] == replies[1]
        stats = server.stats
        assert (stats.seen[chat_key()], stats.billed[chat_key()]) == (2, 1)
        assert stats.idempotency_keys == {chat_key(): ["one", "one"]}


def test_requests_run_side_by_side_while_they_wait():
    async def ask(url):
        async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            await asyncio.gather(*(client.chat.completions.create(**chat(n)) for n in range(32)))

    with LlmServer(answer, Faults(latency=0.2)) as server:
        start = time.monotonic()
        asyncio.run(ask(server.url))
        # One after the other they would take more than six seconds.
        assert time.monotonic() - start < 5
        assert 1 < server.stats.max_concurrent <= 32


def test_a_client_that_left_is_not_billed():
    # The seed gives this body a wait of 0.8 seconds.
    with serving(latency=0.5) as (server, client):
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(**chat(11), timeout=0.3)
        time.sleep(0.8)
        assert (server.stats.seen[chat_key(11)], server.stats.billed[chat_key(11)]) == (1, 0)


def test_a_batch_without_faults():
    with serving(polls=2) as (server, client):
        file = strict(upload(client, 3))
        assert client.files.retrieve(file.id) == file
        batch = submit(client, file.id, metadata={"run": "a"})
        states = [strict(client.batches.retrieve(batch.id)) for _ in range(4)]
        assert [batch.status, *(s.status for s in states)] == [
            *("validating", "in_progress", "finalizing", "completed", "completed")
        ]
        counts = states[-1].request_counts
        assert (counts.total, counts.completed, counts.failed) == (3, 3, 0)
        assert states[-1].error_file_id is None
        lines = [json.loads(line) for line in client.files.content(states[-1].output_file_id).iter_lines()]
        assert [line["custom_id"] for line in lines] == ["r0", "r1", "r2"]
        assert lines[1]["response"]["body"]["choices"][0]["message"]["content"] == answer(chat(1))
        assert [server.stats.billed[chat_key(n)] for n in range(3)] == [1, 1, 1]
        submit(client, file.id)
        cancelled = submit(client, file.id)
        assert client.batches.cancel(cancelled.id).status == "cancelling"
        assert client.batches.retrieve(cancelled.id).status == "cancelled"
        pages = list(client.batches.list(limit=2))
        assert [(b.id, b.metadata) for b in pages] == [
            *(("batch_2", None), ("batch_1", None), ("batch_0", {"run": "a"}))
        ]
        assert server.stats.batches == ["batch_0", "batch_1", "batch_2"]


def ids(lines):
    return [json.loads(line).get("custom_id") for line in lines]


def test_the_lines_of_a_batch_go_wrong():
    expected = [f"r{n}" for n in range(40)]
    with serving(shuffled=True) as (_, client):
        found = ids(run_batch(client)[1])
        assert found != expected
        assert sorted(found) == sorted(expected)
    with serving(missing_id=0.5) as (_, client):
        lines = [json.loads(line) for line in run_batch(client)[1]]
        assert {line.get("custom_id", "absent") for line in lines} > {None, "absent"}
    with serving(dropped_lines=0.5) as (server, client):
        assert 0 < len(run_batch(client)[1]) == 40 - server.stats.faults["dropped_lines"] < 40
        assert server.stats.billed.total() - 2 == 40 - server.stats.faults["dropped_lines"]
    with serving(duplicated=0.5) as (server, client):
        assert len(run_batch(client)[1]) == 40 + server.stats.faults["duplicated"] > 40
    with serving(malformed_lines=1) as (_, client), pytest.raises(json.JSONDecodeError):
        ids(run_batch(client)[1])
    with serving(foreign_lines=1) as (_, client):
        assert set(ids(run_batch(client)[1])) - set(expected) == {f"nobody-{name}" for name in expected}
    with serving(error_lines=0.5) as (_, client):
        _, outputs, errors = run_batch(client)
        assert sorted(ids(outputs + errors)) == sorted(expected)
        failures = [json.loads(line) for line in errors]
        assert {f["response"]["status_code"] if f["response"] else f["error"]["code"] for f in failures} == {
            *(500, "server_error")
        }


def test_batches_that_end_otherwise():
    with serving(only_errors=1, empty_ids=True) as (_, client):
        batch, outputs, errors = run_batch(client)
        assert (batch.status, batch.output_file_id, outputs, len(errors)) == ("completed", "", [], 40)
    with serving(expired=1, answered_before_end=0.25) as (_, client):
        batch, outputs, errors = run_batch(client)
        assert (batch.status, len(outputs), len(errors)) == ("expired", 10, 30)
        assert json.loads(errors[0])["error"]["code"] == "batch_expired"
    for faults in ({"failed": 1}, {"line_limit": 39}, {"queue_limit": 39}):
        with serving(**faults) as (server, client):
            batch, outputs, errors = run_batch(client)
            assert (batch.status, outputs, errors, len(batch.errors.data)) == ("failed", [], [], 1)
            assert server.stats.seen[chat_key(0)] == 0
    with serving(byte_limit=100) as (_, client), pytest.raises(openai.BadRequestError):
        upload(client)
    with serving() as (_, client):
        good = {"custom_id": "a", "method": "POST", "url": ANSWERING[0], "body": chat()}
        bad = [good, good, {**good, "custom_id": 3}, {**good, "url": "/v1"}, {"body": chat()}]
        batch = submit(client, upload(client, lines=bad).id)
        problems = client.batches.retrieve(batch.id).errors.data
        assert [(problem.line, problem.code) for problem in problems] == [
            *(
                (2, "duplicate_custom_id"),
                (3, "invalid_custom_id"),
                (4, "invalid_url"),
                (5, "invalid_json_line"),
            )
        ]


def test_faults_can_be_confined_to_some_requests():
    with serving(dropped=1, only="POST /v1/batches$") as (_, client):
        file = upload(client, 2)
        with pytest.raises(openai.APIConnectionError):
            submit(client, file.id)
        # What was dropped has been done.
        assert [batch.id for batch in client.batches.list()] == ["batch_0"]


def test_failures_of_the_answer_are_not_taken_for_faults():
    def fails(body):
        raise KeyError("oops")

    server = LlmServer(fails)
    server.__enter__()
    client = openai.OpenAI(base_url=server.url, max_retries=0, api_key=KEY)
    with client, pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**chat())
    with pytest.raises(AssertionError, match="oops"):
        server.__exit__(None)


def test_faults_of_unknown_names_are_errors():
    with pytest.raises(ValueError, match="served"):
        Faults(always=["served"])


def test_in_a_process_of_its_own():
    command = [sys.executable, "-m", "tests.llm.server", "--print-port", "--key", KEY, "--model", "m"]
    options = [
        "--answer",
        "tests.llm.test_server:answer",
        "--faults",
        '{"rate_limited": 1, "only": "completions"}',
    ]
    root = Path(__file__).parents[2]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
            with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
                assert client.responses.create(model="m", input="five").output_text == 'Output: "five"'
                with pytest.raises(openai.RateLimitError):
                    client.chat.completions.create(**chat(model="m"))
            assert fetch_stats(url).faults == {"rate_limited": 1}
        finally:
            process.terminate()
