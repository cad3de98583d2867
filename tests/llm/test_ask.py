"""``cadmus llm`` with Inspect and a server."""

import json
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
import yaml
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.llm.models import read_models
from cadmus.llm.questions import questions
from tests.checkout import ROOT
from tests.evaluate.solver import errs
from tests.llm.server import LlmServer

pytest.importorskip("inspect_ai")
# Those of Inspect and what it uses.
pytestmark = pytest.mark.filterwarnings("ignore")
PROGRAMS = 12
OPTIONS = ("--config", "config.yaml", "--table", "llms.yaml", "--directory", "llm")


@pytest.fixture
def step(tmp_path, monkeypatch):
    """A function that runs a step of ``cadmus llm`` with models and fields of the config."""
    monkeypatch.chdir(tmp_path)

    def step(command, *arguments, models, **llm):
        config = {"extends": str(ROOT / "tests/tiny.yaml"), "name": "mine"}
        settings = {"programs": PROGRAMS, "grid": False, "max_output_tokens": [1, 9], **llm}
        config["llm"] = {"models": [*models], **settings}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        (tmp_path / "llms.yaml").write_text(yaml.safe_dump(models))
        done = CliRunner().invoke(cadmus, ["llm", command, *arguments, *OPTIONS], catch_exceptions=True)
        if done.exception is not None:
            raise done.exception
        return done

    return step


def entry(url, **fields):
    return {"model": "openai-api/local/test", "base_url": url, "options": {"max_retries": 0}, **fields}


def test_answers_are_graded_and_asked_once(step, tmp_path):
    with LlmServer() as server:
        models = {"test": entry(server.url, usd_per_million_input=1, usd_per_million_output=2)}
        step("ask", models=models)
        step("ask", models=models)
        assert len(server.asked) == 2 * PROGRAMS
        assert set(server.asked.values()) == {1}
        assert {body["max_tokens"] for body in server.bodies} == {9}
        # More questions: the others are known.
        step("ask", models=models, shots=[0, 2])
        assert len(server.asked) == 4 * PROGRAMS
        assert set(server.asked.values()) == {1}
    shown = json.loads(step("score", "--output", "llm.parquet", "--json", models=models, shots=[0, 2]).stdout)
    assert [(row["alphabet"], row["shots"], row["max_output_tokens"]) for row in shown] == [
        (symbols, shots, limit) for limit in (1, 9) for symbols in ("normal", "alternate") for shots in (0, 2)
    ]
    answers = pl.read_parquet(tmp_path / "llm.parquet")
    assert set(answers.filter(max_output_tokens=1)["outcome"]) == {"truncated"}
    wrong = sum(errs(text) for text in server.asked)
    assert answers.filter(outcome="wrong").height == wrong
    assert answers.filter(outcome="correct").height == 4 * PROGRAMS - wrong
    assert answers["usd"].sum() == pytest.approx(4 * PROGRAMS * (600 + 2 * 7) / 1e6)


def test_a_choice_is_the_likeliest_comparator(step, tmp_path):
    with LlmServer() as server:
        models = {"test": entry(server.url, answer="choice")}
        step("ask", models=models, alphabets=["letters"])
        assert {(body["max_tokens"], body["logprobs"]) for body in server.bodies} == {(1, True)}
    step("score", "--output", "llm.parquet", models=models, alphabets=["letters"])
    answers = pl.read_parquet(tmp_path / "llm.parquet")
    assert answers["outcome"].is_in(["correct", "wrong"]).all()
    assert answers["max_output_tokens"].unique().to_list() == [1]
    likeliest = answers.select(pl.max_horizontal("less", "equal", "greater").exp()).to_series()
    assert likeliest.to_list() == pytest.approx([0.2] * PROGRAMS)


@pytest.mark.parametrize(
    ("answer", "finish", "outcome"),
    [
        (lambda text: "The answer is <", "stop", "unparsed"),
        (lambda text: "", "stop", "unparsed"),
        (lambda text: "<", "length", None),
        (lambda text: "First, 3", "length", "truncated"),
        (lambda text: "I cannot", "content_filter", "refused"),
        # Of another alphabet.
        (lambda text: "k", "stop", "unparsed"),
    ],
)
def test_other_answers_solve_nothing(step, tmp_path, answer, finish, outcome):
    with LlmServer(answer, finish=finish) as server:
        models = {"test": entry(server.url)}
        step("ask", models=models, alphabets=["normal"], max_output_tokens=[9])
    step("score", "--output", "llm.parquet", models=models, alphabets=["normal"], max_output_tokens=[9])
    outcomes = set(pl.read_parquet(tmp_path / "llm.parquet")["outcome"])
    assert outcomes == ({outcome} if outcome else {"correct", "wrong"})


def test_killed_twice_it_loses_no_reply(step, tmp_path):
    with LlmServer(delay=0.3) as server:
        models = {"test": entry(server.url, options={"max_connections": 2})}
        step("estimate", models=models)
        command = [sys.executable, "-m", "cadmus", "llm", "ask", *OPTIONS]
        for wanted in (6, 14):
            process = subprocess.Popen(
                command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True
            )
            while server.asked.total() < wanted:
                time.sleep(0.05)
                assert process.poll() is None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        step("ask", models=models)
        assert len(server.asked) == 2 * PROGRAMS
        # Those under way are asked again.
        assert server.asked.total() <= 2 * PROGRAMS + 2 * 2
    done = json.loads(step("score", "--output", "llm.parquet", "--json", models=models).stdout)
    assert not any(row["unanswered"] for row in done)


def test_what_cannot_be_asked_is_said_in_a_line(step, monkeypatch):
    def refused(message, **fields):
        with pytest.raises(InputError, match=message):
            step("ask", models={"test": entry(url, **fields)})

    with LlmServer(status=401) as server:
        url = server.url
        refused("test: .*no such luck")
        refused("has no model 'another'; it has test", model="openai-api/local/another")
        refused("test: options: .*heat", options={"heat": 1})
    refused("no server answers there")
    refused("llm.max_cost_usd: the answers may cost 216.00 USD, above 5", usd_per_million_output=1e6)
    monkeypatch.delenv("CADMUS_TEST_KEY", raising=False)
    keyed = {"test": entry(url, key="CADMUS_TEST_KEY")}
    assert "test: not asked, as CADMUS_TEST_KEY is not set" in step("ask", models=keyed).output
    assert step("score", "--output", "llm.parquet", models=keyed).output.count("not run") == 4


def test_questions_are_the_same_programs_in_every_alphabet(tmp_path):
    config = load_config(ROOT / "tests/tiny.yaml")
    alphabets = ["normal", "alternate", "letters", "permuted"]
    settings = {"programs": 9, "shots": [0, 4], "alphabets": alphabets, "max_output_tokens": [2, 1]}
    config = config.model_copy(update={"llm": config.llm.model_copy(update=settings)})
    (tmp_path / "llms.yaml").write_text("a: {model: x/y}\nb: {model: x/y, reads_limit: true}\n")
    once, each = read_models(tmp_path / "llms.yaml", ["a", "b"]).values()
    asked = questions(config, once)
    balanced = asked.filter(~pl.col("in_grid"))
    assert len(balanced) == 9 * 2 * 4
    assert asked["limit"].unique().to_list() == [2]
    programs = balanced.group_by("alphabet", "shots", maintain_order=True).agg("program")["program"]
    assert programs.n_unique() == 1
    grid = asked.filter("in_grid")
    assert grid["shots"].unique().to_list() == [0]
    assert grid.filter(alphabet="normal").select("x", "y").is_unique().all()
    assert len(questions(config, each)) == 2 * len(asked)
    prompts = balanced.filter(alphabet="normal", shots=4)["prompt"]
    assert all(prompt.count("Program: ") == 3 + 4 + 1 for prompt in prompts)
