"""The comparison with large language models, against a local server that misbehaves on purpose."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import yaml
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.config import load_config, parse_config
from cadmus.dataset.splits import TEST, split_of
from cadmus.errors import InputError, ModelOutputError
from cadmus.evaluate.grid import grid_programs
from cadmus.llm import batches, client, direct
from cadmus.llm.answers import Answer, read_reply
from cadmus.llm.comparison import Comparison
from cadmus.llm.outcomes import OUTCOMES
from cadmus.llm.prompt import EXAMPLES, SYMBOLS, document, prompt, read_answer, translate
from cadmus.llm.requests import key_of
from cadmus.llm.submit import submit
from cadmus.programs import Programs
from cadmus.vm import reference
from tests.llm_server import Faults, LlmServer, fetch_stats, request_key
from tests.llm_solver import errs, read_prompt, solve

ROOT = Path(__file__).parent.parent
KEY = "sk-test-4321-not-to-be-seen"
TABLE = {
    "chat": {"endpoint": "chat"},
    "effort": {"endpoint": "chat", "reasoning_effort": "low"},
    "responses": {"endpoint": "responses"},
    "plain": {"endpoint": "completions", "usd_per_million_input": 0, "usd_per_million_output": 0},
    "batch": {"endpoint": "responses", "transport": "batch", "reasoning_effort": "high"},
    "chat-batch": {"endpoint": "chat", "transport": "batch"},
    "stranger": {"endpoint": "chat", "model": "gpt-unknown"},
}
DEFAULTS = {
    "model": "gpt-test",
    "transport": "direct",
    "usd_per_million_input": 1,
    "usd_per_million_output": 10,
    "source": "x",
}
VALUES = 3
PAIRS = (2 * VALUES + 1) ** 2


class Run:
    """A run in a directory of its own, whose steps are taken as a user takes them."""

    def __init__(self, directory, *models, **llm):
        self.directory = directory
        self.config = directory / "config.yaml"
        self.table = directory / "llms.yaml"
        self.table.write_text(yaml.safe_dump({name: {**DEFAULTS, **entry} for name, entry in TABLE.items()}))
        self.llm = {"models": list(models), "max_output_tokens": [64], "grid_max_output_tokens": 64, **llm}
        self.configure()

    def configure(self, **llm):
        self.llm |= llm
        self.config.write_text(
            yaml.safe_dump(
                {
                    "name": "test",
                    "dataset": {
                        "values": {"low": -VALUES, "high": VALUES},
                        "templates": {"equality": {"train": 1}},
                    },
                    "model": {"layers": 1, "width": 8, "heads": 1, "mlp": 8},
                    "train": {"steps": 1},
                    "evaluate": {"grid": {"low": -VALUES - 1, "high": VALUES + 1, "programs_per_pixel": 2}},
                    "llm": self.llm,
                }
            )
        )

    def arguments(self, step, *arguments):
        own = ["--config", self.config, "--table", self.table, "--directory", self.directory / "llm"]
        return ["llm", step, *map(str, own), *map(str, arguments)]

    def step(self, step, *arguments):
        done = CliRunner().invoke(cadmus, self.arguments(step, *arguments), catch_exceptions=False)
        return done.output

    def refused(self, step, *arguments):
        with pytest.raises(InputError) as caught:
            CliRunner().invoke(
                cadmus, self.arguments(step, *arguments), catch_exceptions=False, standalone_mode=False
            )
        assert "\n" not in str(caught.value)
        assert KEY not in str(caught.value)
        return str(caught.value)

    def start(self, step, *arguments):
        command = [sys.executable, "-m", "cadmus", *self.arguments(step, *arguments)]
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def comparison(self):
        return Comparison(load_config(self.config), self.directory / "llm", self.table)

    def score(self):
        self.step("score", "--output", self.directory / "answers.parquet")
        return pl.read_parquet(self.directory / "answers.parquet")

    def replies(self, name):
        path = self.directory / f"llm/replies/{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def requests(self, name):
        text = (self.directory / f"llm/requests/{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    # Loading the certificates takes longer than all requests together, and there is nothing to certify.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def make(*models, prepared=True, **llm):
        run = Run(tmp_path, *models, **llm)
        if prepared:
            run.step("prepare")
        return run

    return make


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def serve(*arguments, answer=solve, **faults):
        server = LlmServer(answer, Faults(**faults), KEY, *arguments)
        server.__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return server

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


def outcomes(answers):
    counts = dict(answers["outcome"].value_counts().iter_rows())
    return {name: counts.get(name, 0) for name in OUTCOMES}


def served(run, name, faults=None):
    """What has to come out, from the requests alone, where every one of them is answered."""
    wrong = sum(errs(line["body"]) for line in run.requests(name))
    return {**dict.fromkeys(OUTCOMES, 0), "correct": len(run.requests(name)) - wrong, "wrong": wrong}


def seen(server, run, name):
    """How often the server saw each request of a model."""
    counted = server.stats.seen
    return [counted[request_key(line["url"], line["body"])] for line in run.requests(name)]


# The prompt.


def test_the_symbols_are_those_of_the_papers_table():
    paper = dict(zip("0123456789+-*/%xn<>=!.", r"-[_+!#917^*/%)}Lb?$~&.", strict=True))
    assert SYMBOLS["alternate"] == paper
    assert SYMBOLS["normal"] == {symbol: symbol for symbol in paper}


def test_the_page_of_prompts_is_current():
    page = (ROOT / "docs/llm-prompts.md").read_text()
    assert page == document(), "run: cadmus llm prompts > docs/llm-prompts.md"


def test_the_two_prompts_differ_in_their_symbols_alone():
    normal, alternate = (prompt("62*4+54*4-", symbols).splitlines() for symbols in SYMBOLS)
    assert len(normal) == len(alternate)
    table = normal.index("symbol  stack    meaning") + 1
    translated = []
    for number, line in enumerate(normal):
        if table <= number < table + len(SYMBOLS["normal"]):
            line = translate(line[0], "alternate") + line[1:]
        elif line.startswith(("Program: ", "Answer: ")):
            start, _, program = line.partition(": ")
            line = f"{start}: {translate(program, 'alternate')}"
        translated.append(line.replace("one of < > and =", "one of ? $ and ~"))
    assert translated == alternate


@pytest.mark.parametrize("symbols", SYMBOLS)
def test_a_prompt_says_all_that_is_needed_and_gives_nothing_away(symbols):
    config = load_config(ROOT / "tests/tiny.yaml")
    _, _, programs, _ = grid_programs(config.evaluate.grid, 0.05, 1)
    beginnings = set()
    for program in programs.to_strings()[::40]:
        text = prompt(program[:-1], symbols)
        body = {"input": text}
        meant, asked = read_prompt(body)
        assert asked == translate(program[:-1], symbols)
        answer = solve(body)
        assert (meant[answer] == program[-1]) != errs(body)
        beginnings.add(text.removesuffix(f"{asked}\nAnswer:"))
    assert len(beginnings) == 1


def test_the_examples_are_true_and_are_of_each_comparator():
    assert all(reference.run(example).true for example in EXAMPLES)
    assert sorted(example[-1] for example in EXAMPLES) == sorted("<=>")


@pytest.mark.parametrize("symbols", SYMBOLS)
def test_an_answer_is_one_comparator_and_nothing_else(symbols):
    for comparator in "<>=":
        written = translate(comparator, symbols)
        assert read_answer(written, symbols) == comparator
        assert read_answer(f" {written}\n", symbols) == comparator
    other = "alternate" if symbols == "normal" else "normal"
    less = translate("<", symbols)
    for text in ("", f"`{less}`", f"{less}.", f"{less}{less}", f"Answer: {less}", translate("<", other), "!"):
        with pytest.raises(ModelOutputError):
            read_answer(text, symbols)


# The config.


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
def test_a_wrong_config_is_refused(llm, message):
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text())
    with pytest.raises(InputError, match=re.escape(message)):
        parse_config({**values, "evaluate": {}, "llm": llm}, "x.yaml")


# The requests.


def test_the_programs_are_those_of_the_grid(make):
    run = make("chat", programs_per_pair=2, grid_programs_per_pair=2)
    comparison = run.comparison()
    evaluate = comparison.config.evaluate.grid
    x, y, programs, pair = grid_programs(evaluate, 0.05, comparison.config.seed)
    inside = {(x, y): program for x, y, program in comparison.index.select("x", "y", "program").iter_rows()}
    assert len(inside) == PAIRS
    theirs = set(comparison.index["program"])
    assert theirs == {
        program
        for program, row in zip(programs.to_strings(), pair, strict=True)
        if max(abs(x[row]), abs(y[row])) <= VALUES
    }
    assert (split_of(Programs.from_strings(sorted(theirs)), 0.05) == TEST).all()
    assert all(reference.run(program).true for program in sorted(theirs)[:50])


def test_a_request_says_what_the_table_says(make):
    run = make("chat", "effort", "responses", "plain", "batch")
    first = {name: run.requests(name)[0] for name in run.llm["models"]}
    for line in first.values():
        assert line["custom_id"] == key_of(line["url"], line["body"])
        assert line["method"] == "POST"
        assert line["body"]["model"] == "gpt-test"
    text = first["chat"]["body"]["messages"][0]["content"]
    assert first["chat"]["body"] == {
        "model": "gpt-test",
        "messages": [{"role": "user", "content": text}],
        "max_completion_tokens": 64,
    }
    assert first["effort"]["body"] == {**first["chat"]["body"], "reasoning_effort": "low"}
    assert first["responses"]["body"] == {"model": "gpt-test", "input": text, "max_output_tokens": 64}
    assert first["batch"]["body"] == {**first["responses"]["body"], "reasoning": {"effort": "high"}}
    program = run.comparison().index["program"][0]
    assert text == prompt(program[:-1], "normal")
    assert first["plain"]["body"] == {
        "model": "gpt-test",
        "prompt": program[:-1],
        "max_tokens": 64,
        "temperature": 0,
    }
    assert len(run.requests("plain")) == PAIRS
    assert len(run.requests("chat")) == 2 * PAIRS


def test_preparing_again_gives_the_same_files(make):
    run = make("chat", "batch")
    files = {path: path.read_bytes() for path in (run.directory / "llm/requests").glob("*.jsonl")}
    run.step("prepare")
    assert files == {path: path.read_bytes() for path in (run.directory / "llm/requests").glob("*.jsonl")}
    run.configure(models=["chat"])
    run.step("prepare")
    assert [path.name for path in (run.directory / "llm/requests").glob("*.jsonl")] == ["chat.jsonl"]


def test_points_of_the_figure_and_of_the_grid(make):
    run = make("chat", max_output_tokens=[32, 128], grid_max_output_tokens=64, grid_programs_per_pair=2)
    counts = run.comparison().index.group_by("symbols", "max_output_tokens", "in_grid").len()
    assert set(counts.iter_rows()) == {
        (symbols, limit, limit == 64, PAIRS * (2 if limit == 64 else 1))
        for symbols in SYMBOLS
        for limit in (32, 64, 128)
    }


def test_what_was_prepared_from_something_else_is_refused(make):
    run = make("chat", prepared=False)
    assert "no requests are prepared there; run `cadmus llm prepare`" in run.refused("estimate")
    run.step("prepare")
    run.configure(max_cost_usd=7)
    run.step("estimate")
    run.configure(max_output_tokens=[128])
    assert "prepared from another config" in run.refused("estimate")
    run.step("prepare")
    lines = (run.directory / "llm/requests/chat.jsonl").read_text()
    (run.directory / "llm/requests/chat.jsonl").write_text(lines.replace("Answer with", "Guess", 1))
    assert "chat.jsonl: missing or changed" in run.refused("submit")


def test_a_config_without_models_asks_nobody(make):
    run = make(prepared=False)
    for step in ("prepare", "estimate", "submit", "collect"):
        assert "llm.models: names no model" in run.refused(step)


# Before anything is sent.


def test_the_estimate_is_what_all_answers_cost_when_they_are_as_long_as_they_may_be(make):
    run = make("chat")
    told = json.loads(run.step("estimate", "--json"))
    (cost,) = told["models"].values()
    requests = run.requests("chat")
    assert cost["requests"] == cost["to_send"] == 2 * PAIRS
    answers = len(requests) * 64 * 10 / 1e6
    prompts = sum(len(line["body"]["messages"][0]["content"].encode()) for line in requests) / 1e6
    # A token holds two bytes or more.
    assert answers + prompts / 4 < cost["to_send_usd"] < answers + prompts
    assert told["usd"] == pytest.approx(cost["to_send_usd"])


def test_nothing_is_sent_above_the_cap(make, serve):
    server = serve()
    run = make("chat", max_cost_usd=0.01)
    assert "llm.max_cost_usd: 0.01 USD may not be enough" in run.refused("submit")
    assert not server.stats.arrivals
    needed = json.loads(run.step("estimate", "--json"))["usd"]
    run.configure(max_cost_usd=round(needed + 0.01, 2))
    run.step("submit")
    # What was spent counts.
    run.configure(max_output_tokens=[64, 128], max_cost_usd=round(needed, 2))
    run.step("prepare")
    assert "are spent or under way" in run.refused("submit")


def test_the_library_sends_nothing_above_the_cap(make, serve):
    server = serve()
    run = make("chat", "batch", max_cost_usd=0.01)
    comparison = run.comparison()
    with comparison.writing(comparison.names), client.connect() as connected:
        with pytest.raises(InputError, match=r"llm\.max_cost_usd: 0\.01 USD may not be enough"):
            direct.send(comparison, ["chat"])
        with pytest.raises(InputError, match=r"llm\.max_cost_usd: 0\.01 USD may not be enough"):
            batches.submit(connected, comparison, "batch")
    with pytest.raises(InputError, match=r"llm\.max_cost_usd: 0\.01 USD may not be enough"):
        submit(comparison)
    assert not server.stats.arrivals


def test_a_missing_package_is_named(make, monkeypatch):
    run = make("chat")
    for name in (
        "cadmus.llm.submit",
        "cadmus.llm.batches",
        "cadmus.llm.direct",
        "cadmus.llm.client",
        "openai",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    assert run.refused("submit") == "cadmus llm submit needs the package openai; run `pip install openai`"
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
        ({"OPENAI_BASE_URL": "http://u:pw@127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1: Connection error"),
    ],
)
def test_a_wrong_key_or_server_is_told_before_anything_is_sent(make, serve, monkeypatch, variables, message):
    monkeypatch.setattr("cadmus.llm.client.RETRIES", 0)
    server = serve()
    run = make("chat")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = run.refused("submit")
    assert message in told
    assert "5678" not in told
    assert not seen_any(server)
    assert not any("sent" in line for line in run.replies("chat"))


def test_a_model_that_the_server_does_not_have_is_told(make, serve):
    server = serve()
    run = make("chat", "stranger")
    assert "has no model 'gpt-unknown', only gpt-test; nothing was sent" in run.refused("submit")
    assert "--model nobody: not in llm.models; there are chat, stranger" in run.refused(
        "submit", "--model", "nobody"
    )
    assert not seen_any(server)
    run.step("submit", "--model", "chat")
    assert seen(server, run, "chat") == [1] * 2 * PAIRS


def seen_any(server):
    return [place for _, place, _ in server.stats.arrivals if place.startswith("POST")]


# One by one.


@pytest.mark.parametrize("name", ["chat", "effort", "responses", "plain"])
def test_the_score_is_what_was_served(make, serve, name):
    server = serve()
    run = make(name)
    run.step("submit")
    answers = run.score()
    assert outcomes(answers) == served(run, name)
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
def test_a_server_that_fails_changes_no_answer(make, serve, monkeypatch, name):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.01)
    server = serve(only="POST", **FAULTS)
    run = make(name)
    told = run.step("submit")
    answers = run.score()
    counts = outcomes(answers)
    assert all(server.stats.faults[fault] for fault in FAULTS)
    assert min(counts[outcome] for outcome in ("truncated", "refused", "rejected")) > 2
    assert counts["unanswered"] == 0
    assert f"{len(answers) - counts['rejected']} answered, {counts['rejected']} rejected" in told
    for line, row in zip(run.requests(name), answers.iter_rows(named=True), strict=True):
        if row["outcome"] in ("correct", "wrong"):
            assert (row["outcome"] == "wrong") == errs(line["body"])
    # What was answered was not asked again; a lost reply was.
    billed = server.stats.billed
    keys = [request_key(line["url"], line["body"]) for line in run.requests(name)]
    answered = answers["outcome"] != "rejected"
    assert [billed[key] == 1 for key in keys] == answered.to_list()
    assert KEY not in "".join(path.read_text() for path in (run.directory / "llm").rglob("*.jsonl"))


@pytest.mark.parametrize("retry_after", ["0.5", "date", "soon", None, "-3"])
def test_a_server_that_asks_to_wait_is_left_alone(make, serve, monkeypatch, retry_after):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.01)
    if retry_after == "date":
        retry_after = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
    server = serve(only="POST", rate_limited=0.2, retry_after=retry_after)
    run = make("chat", symbols=["normal"])
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
def test_a_server_that_accepts_nothing_is_left_alone(make, serve, faults, message):
    server = serve(only="POST", **faults)
    run = make("chat", concurrency=4)
    assert message in run.refused("submit")
    assert sum(seen(server, run, "chat")) <= direct.REJECTIONS + 4


def test_requests_that_fail_again_and_again_are_left_for_the_next_time(make, serve, monkeypatch):
    monkeypatch.setattr(direct, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(direct, "ATTEMPTS", 2)
    server = serve(only="POST", server_error=0.5)
    run = make("chat")
    told = run.refused("submit")
    left = outcomes(run.score())["unanswered"]
    assert f"{left} of {2 * PAIRS} requests have no answer (last failure: " in told
    assert 0 < left < 2 * PAIRS
    assert "(status 500)" in told
    for _ in range(20):
        if "nothing is left" in CliRunner().invoke(cadmus, run.arguments("submit")).output:
            break
    assert outcomes(run.score()) == served(run, "chat")
    assert set(server.stats.billed.values()) == {1}


def test_not_more_at_a_time_and_in_a_minute_than_wanted(make, serve):
    server = serve(latency=0.02)
    run = make("chat", concurrency=3, symbols=["normal"])
    run.step("submit")
    assert server.stats.max_concurrent == 3
    server = serve()
    run.configure(models=["effort"], requests_per_minute=1200)
    run.step("prepare")
    run.step("submit")
    sent = [second for second, place, _ in server.stats.arrivals if place.startswith("POST")]
    assert len(sent) == PAIRS
    assert sent[-1] - sent[0] > 0.9 * (PAIRS - 1) * 60 / 1200


def test_replies_of_two_servers_are_not_mixed(make, serve):
    serve()
    run = make("chat", symbols=["normal"])
    run.step("submit")
    run.configure(symbols=["normal", "alternate"])
    run.step("prepare")
    other = serve()
    assert "has replies of http://127.0.0.1" in run.refused("submit")
    assert not seen_any(other)


def test_two_submissions_at_a_time_are_refused(make, serve):
    serve()
    run = make("chat")
    with run.comparison().writing(["chat"]):
        assert "in use by another `cadmus llm`" in run.refused("submit")


@pytest.fixture
def slow_server(monkeypatch, tmp_path):
    """In a process of its own, as those of a client that is killed have to be counted on."""
    command = [sys.executable, "-m", "tests.llm_server", "--answer", "tests.llm_solver:solve", "--key", KEY]
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
def test_a_submission_that_is_stopped_asks_nothing_twice(make, slow_server, number):
    run = make("chat", concurrency=4)
    process = run.start("submit")
    wait_for(slow_server, 20)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert re.search(r"stopped with \d+ requests left; run the command again to resume", output)
    before = fetch_stats(slow_server).seen
    assert 20 < len(before) < 2 * PAIRS
    assert outcomes(run.score())["unanswered"] == 2 * PAIRS - sum(
        before[request_key(line["url"], line["body"])] for line in run.requests("chat")
    )
    run.step("submit")
    counted = fetch_stats(slow_server).seen
    assert {counted[request_key(line["url"], line["body"])] for line in run.requests("chat")} == {1}
    assert outcomes(run.score()) == served(run, "chat")


def test_a_submission_that_is_killed_loses_no_reply(make, slow_server):
    concurrency = 4
    run = make("chat", concurrency=concurrency)
    kills = 0
    while True:
        process = run.start("submit")
        try:
            output, _ = process.communicate(timeout=2.0 + 0.37 * kills)
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
    # Asked again was only what was under way at a kill, under the same idempotency key, which is paid once.
    assert 0 <= sum(stats.seen[key] - 1 for key in keys) <= kills * concurrency
    assert {stats.billed[key] for key in keys} == {1}
    assert all(len(set(stats.idempotency_keys[key])) == 1 for key in keys)
    assert outcomes(run.score()) == served(run, "chat")
    # What was sent and not heard of counts as if it had been paid.
    unheard = run.comparison().replies["chat"].unheard
    cost = json.loads(run.step("estimate", "--json"))["models"]["chat"]
    assert (cost["awaited_usd"] > 0) == bool(unheard.total())


def test_a_line_that_a_crash_cut_off_costs_its_own_reply_alone(make, serve):
    server = serve()
    run = make("chat")
    run.step("submit")
    path = run.directory / "llm/replies/chat.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert outcomes(run.score())["unanswered"] == 1
    run.step("submit")
    assert sorted(seen(server, run, "chat"))[-2:] == [1, 2]
    assert outcomes(run.score()) == served(run, "chat")


# In batches.


def submit_and_collect(run):
    run.step("submit")
    return run.step("collect", "--wait", "--every", "0.01")


@pytest.mark.parametrize("name", ["batch", "chat-batch"])
def test_a_batch_is_matched_by_what_its_lines_answer(make, serve, name):
    server = serve(shuffled=True, duplicated=0.2, foreign_lines=0.2, polls=2, truncated=0.1, refused=0.1)
    run = make(name)
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
    {"missing_id": 0.2},
    {"dropped_lines": 0.3},
    {"malformed_lines": 0.2},
    {"error_lines": 0.3},
    {"expired": 0.7, "seed": 1},
    {"missing_id": 0.1, "dropped_lines": 0.1, "malformed_lines": 0.1, "error_lines": 0.2, "duplicated": 0.2},
]


@pytest.mark.parametrize("faults", LOST, ids=lambda faults: "+".join(faults))
def test_what_a_batch_leaves_unanswered_is_sent_again(make, serve, faults):
    server = serve(**faults)
    run = make("batch")
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
    assert outcomes(run.score()) == served(run, "batch")
    assert len(server.stats.batches) == rounds


@pytest.mark.parametrize("empty", [False, True])
def test_a_batch_that_is_completed_with_an_error_file_alone(make, serve, empty):
    serve(only_errors=1, empty_ids=empty)
    run = make("batch")
    run.step("submit")
    told = run.refused("collect", "--wait", "--every", "0.01")
    assert "98 requests have no answer" in told
    assert outcomes(run.score())["unanswered"] == 98
    errors = [line for line in run.replies("batch") if "error" in line]
    assert len(errors) == 98
    assert all(line["error"]["message"] for line in errors)


def test_requests_of_a_batch_that_the_server_will_never_answer(make, serve):
    serve(rejected=0.2)
    run = make("batch")
    submit_and_collect(run)
    counts = outcomes(run.score())
    assert counts["rejected"] > 5
    assert counts["unanswered"] == 0
    assert "nothing is left to send" in run.step("submit")


def test_a_batch_that_was_not_accepted_says_why(make, serve):
    serve(line_limit=10)
    run = make("batch")
    run.step("submit")
    done = CliRunner().invoke(cadmus, run.arguments("collect", "--wait", "--every", "0.01"))
    assert re.search(r"batch \S+: failed, 0 of 98: \w+", done.output)


def test_large_sets_of_requests_are_parted(make, serve, monkeypatch):
    monkeypatch.setattr(batches, "MAX_REQUESTS", 40)
    server = serve(line_limit=40)
    run = make("batch")
    submit_and_collect(run)
    assert len(server.stats.batches) == 3
    assert outcomes(run.score()) == served(run, "batch")
    monkeypatch.setattr(batches, "MAX_BYTES", 60_000)
    run.configure(max_output_tokens=[64, 128])
    run.step("prepare")
    server = serve(byte_limit=60_000)
    (run.directory / "llm/replies/batch.jsonl").unlink()
    submit_and_collect(run)
    assert outcomes(run.score()) == served(run, "batch")


def test_a_batch_of_which_nothing_could_be_written_down_is_found_again(make, serve):
    """As after a kill between the creation of a batch and the note of it."""
    server = serve(polls=1)
    run = make("batch")
    run.step("submit")
    (run.directory / "llm/replies/batch.jsonl").unlink()
    run.step("submit")
    assert len(server.stats.batches) == 1
    run.step("collect", "--wait", "--every", "0.01")
    assert outcomes(run.score()) == served(run, "batch")


@pytest.mark.parametrize("fault", ["dropped", "dropped_halfway", "malformed", "server_error"])
def test_a_creation_that_fails_makes_no_second_batch(make, serve, monkeypatch, fault):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server = serve(only="POST /v1/batches$", **{fault: 0.99})
    run = make("batch")
    if fault == "server_error":
        assert "the batch could not be created" in run.refused("submit")
        assert not server.stats.batches
        return
    run.step("submit")
    assert len(server.stats.batches) == 1
    run.step("collect", "--wait", "--every", "0.01")
    assert outcomes(run.score()) == served(run, "batch")


def test_a_collection_that_was_killed_reads_the_results_again(make, serve):
    server = serve()
    run = make("batch")
    submit_and_collect(run)
    path = run.directory / "llm/replies/batch.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:30]))
    assert "69 answers, 29 repeated" in run.step("collect")
    assert outcomes(run.score()) == served(run, "batch")
    assert len(server.stats.batches) == 1


# Files of replies.


def vllm_line(line, **changes):
    """A line as ``vllm run-batch`` writes it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": solve(line["body"])}}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{**choice, "finish_reason": "stop"}]}
    response = {"status_code": 200, "request_id": "vllm-batch-1", "body": body}
    return {"id": "vllm-1", "custom_id": line["custom_id"], "response": response, "error": None, **changes}


def test_a_file_that_vllm_has_written_is_taken(make, tmp_path):
    run = make("chat-batch")
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


def test_a_file_of_another_run_is_refused(make, tmp_path):
    run = make("chat-batch")
    lines = [vllm_line(line) for line in run.requests("chat-batch")]
    file = tmp_path / "replies.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    run.configure(max_output_tokens=[128], grid_max_output_tokens=128)
    run.step("prepare")
    assert "no line answers a request of this run" in run.refused("collect", file)
    assert "cannot read the replies" in run.refused("collect", tmp_path / "nothing.jsonl")
    file.write_bytes(b"\xff")
    assert "not UTF-8" in run.refused("collect", file)
    file.write_text("nonsense\n")
    assert "no line answers a request" in run.refused("collect", file)
    assert outcomes(run.score())["unanswered"] == 98


# The grades.

USAGE = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}
CHAT, RESPONSES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/completions"


def chat(content, finish_reason="stop", **message):
    message = {"content": content, **message}
    return {"choices": [{"message": message, "finish_reason": finish_reason}], **USAGE}


def response(*parts, status="completed", reason=None):
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": list(parts)}]
    details = {"reason": reason} if reason else None
    usage = {"input_tokens": 3, "output_tokens": 4}
    return {"status": status, "incomplete_details": details, "output": output, "usage": usage}


TEXT, REFUSAL = {"type": "output_text", "text": "<"}, {"type": "refusal", "refusal": "no"}


@pytest.mark.parametrize(
    ("url", "body", "text", "fault"),
    [
        (CHAT, chat("<"), "<", None),
        (CHAT, chat(None), "", None),
        (CHAT, chat("<", "length"), "<", "truncated"),
        (CHAT, chat(None, "length"), "", "truncated"),
        (CHAT, chat(None, refusal="no"), "no", "refused"),
        (CHAT, chat("", "content_filter"), "", "refused"),
        (COMPLETIONS, {"choices": [{"text": "<", "finish_reason": "stop"}], **USAGE}, "<", None),
        (COMPLETIONS, {"choices": [{"text": "<", "finish_reason": "length"}], **USAGE}, "<", "truncated"),
        (RESPONSES, response(TEXT), "<", None),
        (RESPONSES, response(REFUSAL), "no", "refused"),
        (RESPONSES, response(TEXT, status="incomplete", reason="max_output_tokens"), "<", "truncated"),
        (RESPONSES, response(status="incomplete", reason="content_filter"), "", "refused"),
    ],
)
def test_what_a_reply_says(url, body, text, fault):
    assert read_reply(url, body) == Answer(text, fault, 3, 4)
    assert read_reply(url, {**body, "usage": None}) == Answer(text, fault, None, None)


@pytest.mark.parametrize(
    ("url", "body"),
    [
        (CHAT, []),
        (CHAT, {}),
        (CHAT, {"choices": []}),
        (CHAT, {"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}),
        (RESPONSES, response(status="in_progress")),
        (RESPONSES, {"output": "<"}),
        (COMPLETIONS, {"choices": [{"message": {"content": "<"}}]}),
    ],
)
def test_what_is_no_reply(url, body):
    with pytest.raises(ModelOutputError):
        read_reply(url, body)


def test_answers_that_are_no_comparator_are_told_apart(make, serve):
    serve(answer=lambda body: "The answer is <")
    run = make("chat", symbols=["normal"])
    run.step("submit")
    answers = run.score()
    assert outcomes(answers)["unparsed"] == len(answers) == PAIRS
    assert set(answers["completion"]) == {"The answer is <"}


def test_a_score_before_anything_was_sent_has_nothing_answered(make):
    run = make("chat")
    assert outcomes(run.score()) == {**dict.fromkeys(OUTCOMES, 0), "unanswered": 2 * PAIRS}
    assert "not run" in run.step("score", "--output", run.directory / "answers.parquet")


def test_the_key_is_nowhere(make, serve):
    """Also where a server gives it back, as the test server does when it does not know it."""
    serve(server_error=0.2, only="POST", rejected=0.1)
    run = make("chat", "batch")
    run.step("submit")
    run.step("collect")
    files = [path for path in run.directory.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
