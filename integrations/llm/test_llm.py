"""``cadmus-llm`` with Inspect and a server."""

import json
import os
import random
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

from cadmus import store
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.evaluate.prompts.language_models import SYMBOLS
from cadmus.experiments import table
from integrations.llm.server import LlmServer
from tests import forging
from tests.checkout import ROOT
from tests.evaluate.solver import errs
from tests.figures.test_figures import grid, legend, texts, titles, written

pytest.importorskip("inspect_ai")
pytest.importorskip("cadmus_llm")

from cadmus_llm import llm_grid, output_tokens
from cadmus_llm.cli import llm
from cadmus_llm.figures import FIGURES
from cadmus_llm.models import MODELS, read_models
from cadmus_llm.outcomes import TABLE
from cadmus_llm.questions import questions
from cadmus_llm.settings import Settings, read_settings

# Those of Inspect and what it uses.
pytestmark = pytest.mark.filterwarnings("ignore")
PROGRAMS = 12
PATHS = f"{ROOT}:{Path(__file__).parent}"
OPTIONS = ("--config", "llm.yaml", "--table", "models.yaml", "--directory", "llm")


@pytest.fixture
def step(tmp_path, monkeypatch):
    """A function that runs a step of ``cadmus-llm`` with models and fields of the config."""
    monkeypatch.chdir(tmp_path)

    def step(command, *arguments, models, **fields):
        settings = {"programs": PROGRAMS, "grid": False, "max_output_tokens": [1, 9], **fields}
        settings |= {"run": str(ROOT / "tests/tiny.yaml"), "models": [*models]}
        (tmp_path / "llm.yaml").write_text(yaml.safe_dump(settings))
        (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
        done = CliRunner().invoke(llm, [command, *arguments, *OPTIONS], catch_exceptions=True)
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
        (lambda text: "It is <", "stop", "unparsed"),
        (lambda text: r"**Answer:** $\boxed{<}$", "stop", None),
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
        command = [sys.executable, "-m", "cadmus_llm", "ask", *OPTIONS]
        for wanted in (6, 14):
            process = subprocess.Popen(
                command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": PATHS}, start_new_session=True
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
    refused("max_cost_usd: the answers may cost 216.00 USD, above 5", usd_per_million_output=1e6)
    monkeypatch.delenv("CADMUS_TEST_KEY", raising=False)
    keyed = {"test": entry(url, key="CADMUS_TEST_KEY")}
    assert "test: not asked, as CADMUS_TEST_KEY is not set" in step("ask", models=keyed).output
    assert step("score", "--output", "llm.parquet", models=keyed).output.count("not run") == 4


def test_questions_are_the_same_programs_in_every_alphabet(tmp_path):
    config = load_config(ROOT / "tests/tiny.yaml")
    alphabets = ["normal", "alternate", "letters", "permuted"]
    fields = {"programs": 9, "shots": [0, 4], "alphabets": alphabets, "max_output_tokens": [2, 1]}
    settings = Settings(models=["a", "b"], **fields)
    (tmp_path / "models.yaml").write_text("a: {model: x/y}\nb: {model: x/y, reads_limit: true}\n")
    once, each = read_models(tmp_path / "models.yaml", settings.models).values()
    asked = questions(settings, config, once)
    balanced = asked.filter(~pl.col("in_grid"))
    assert len(balanced) == 9 * 2 * 4
    assert asked["limit"].unique().to_list() == [2]
    programs = balanced.group_by("alphabet", "shots", maintain_order=True).agg("program")["program"]
    assert programs.n_unique() == 1
    grid = asked.filter("in_grid")
    assert grid["shots"].unique().to_list() == [0]
    assert grid.filter(alphabet="normal").select("x", "y").is_unique().all()
    assert len(questions(settings, config, each)) == 2 * len(asked)
    prompts = balanced.filter(alphabet="normal", shots=4)["prompt"]
    assert all(prompt.count("Program: ") == 3 + 4 + 1 for prompt in prompts)


def test_the_config_names_its_run_and_is_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/mine.yaml").write_text("extends: quick\nname: mine\n")

    def invalid(text):
        Path("llm.yaml").write_text(text)
        with pytest.raises(InputError) as caught:
            read_settings(Path("llm.yaml"), {})
        return str(caught.value)

    assert invalid("modles: [gpt-5]") == (
        "llm.yaml: modles: no such key; did you mean 'models'? (and 1 more problem)"
    )
    assert invalid("{models: [a], run: qick}") == "llm.yaml: run: no config 'qick'; did you mean 'quick'?"
    assert invalid("{models: [a], run: no.yaml}") == (
        "llm.yaml: run: cannot read no.yaml: No such file or directory"
    )
    Path("llm.yaml").write_text("{models: [gpt-5], run: runs/mine.yaml}")
    settings, run = read_settings(Path("llm.yaml"), {"shots": [4]})
    assert (settings.shots, run.name) == ([4], "mine")
    assert read_models(MODELS, settings.models)["gpt-5"].key == "OPENAI_API_KEY"
    with pytest.raises(InputError, match=r"models: no model 'gpt' in .*; did you mean 'gpt-5'"):
        read_models(MODELS, ["gpt"])


def test_prompts_are_printed_in_every_alphabet():
    printed = CliRunner().invoke(llm, ["prompts"]).output
    assert printed.count("less") >= len(SYMBOLS)
    assert all(f"--- {name} ---" in printed for name in SYMBOLS)


def test_a_missing_package_is_one_line(tmp_path):
    (tmp_path / "llm.yaml").write_text("models: [smollm2]")
    code = "import sys; sys.modules['inspect_ai'] = None; from cadmus_llm.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "ask", "--config", "llm.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    fix = "pip install --editable integrations/llm"
    assert done.stderr == f"cadmus-llm: error: needs inspect_ai, which is not installed; {fix}\n"


def answers() -> pl.DataFrame:
    """Return answers of two models: one with two alphabets, one with no replies."""
    outcomes = ["correct", "wrong", "correct", "truncated", "unparsed", "refused", *2 * ["unanswered"]]
    rows = [
        (model, symbols, limit, in_grid, x, y, outcomes[(x + 2 * y + limit) % 8 if share else 7])
        for model, symbols, share in (("some", "normal", 1), ("some", "alternate", 1), ("other", "normal", 0))
        for limit in (500, 2000)
        for in_grid in (False, True)
        for x in (-1, 0, 1)
        for y in (-1, 0, 1)
    ]
    columns = ["model", "alphabet", "max_output_tokens", "in_grid", "x", "y", "outcome"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        shots=0, input_tokens=600, output_tokens=7, usd=0.5
    )


def test_output_tokens_compares_cadmus_with_llms():
    figure = output_tokens.draw(grid(), answers())
    shown = " ".join(texts(figure) + legend(figure))
    assert "reported" in shown
    assert "some, alternate symbols" in shown
    assert "Cadmus, one output token: 98.0%" not in shown  # computed, not the paper's
    assert "Cadmus, one output token: 97.8%" in shown
    assert "best baseline: 33.3% (constant)" in shown


def test_llms_have_their_own_panels():
    rows = llm_grid.data(grid(), answers())
    # Three of the nine pixels are unanswered; these do not count.
    counts = rows.group_by("model", "alphabet", maintain_order=True).agg(
        pl.sum("programs", "correct"), pl.len()
    )
    assert counts.rows()[1:] == [
        ("some", "normal", 6, 2, 9),
        ("some", "alternate", 6, 2, 9),
        ("other", "normal", 0, 0, 9),
    ]
    figure = llm_grid.draw(grid(), answers())
    assert titles(figure) == [
        "Cadmus",
        "some, normal symbols\n2,000 tokens: 33.3%",
        "some, alternate symbols\n2,000 tokens: 33.3%",
    ]
    assert figure.get_supxlabel() == "not run: other, normal symbols"
    assert figure.axes[1].get_xlim() == (-1.5, 1.5)


def test_a_series_without_replies_is_not_run():
    rows = output_tokens.data(grid(), answers()).filter(model="other")
    assert set(rows["source"]) == {"not run"}
    assert set(rows["unanswered"]) == {9}
    figure = output_tokens.draw(grid(), answers())
    assert {"other, normal symbols: not run", "some, normal symbols (3 not answered)"} <= set(legend(figure))


def test_unreadable_answers_are_told_from_wrong_ones():
    few = answers().filter(max_output_tokens=500)
    rows = (
        output_tokens.data(grid(), few)
        .select("model", "alphabet", "programs", "unparsed", "unreadable")
        .rows()
    )
    assert rows[2:] == [
        ("some", "normal", 7, 1, 1 / 7),
        ("some", "alternate", 7, 1, 1 / 7),
        ("other", "normal", 0, 0, None),
    ]
    shown = legend(output_tokens.draw(grid(), few))
    assert "some, alternate symbols (2 not answered) (14.3% unreadable)" in shown


def test_figures_are_drawn_from_results(tmp_path):
    written(tmp_path / "grid.parquet", grid(), table("grid"))
    written(tmp_path / "llm.parquet", answers(), TABLE)
    options = {"--grid": "grid.parquet", "--answers": "llm.parquet", "--output": ""}
    words = [word for name, file in options.items() for word in (name, str(tmp_path / file))]
    done = CliRunner().invoke(llm, ["draw", *FIGURES, *words])
    names = [f"{name}.{suffix}" for name in FIGURES for suffix in ("pdf", "png", "csv")]
    assert done.output.split() == [str(tmp_path / name) for name in names]
    assert all((tmp_path / name).stat().st_size for name in names)


def test_forged_answers_are_valid_or_refused_in_one_line(tmp_path):
    lines = []
    for number in range(16):
        path = written(tmp_path / "llm.parquet", answers(), TABLE)
        change = forging.forge(path, random.Random(f"llm {number}"))
        try:
            output_tokens.data(grid(), store.read_results(path, TABLE)[0])
        except InputError as error:
            lines.append(str(error))
        except Exception as error:
            raise AssertionError(f"{number}: {change}") from error
    assert len(lines) > 4
    assert not [line for line in lines if "\n" in line or str(path) not in line]


def test_the_readme_describes_every_field_and_column():
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| `(\w+)`", readme, re.MULTILINE)
    assert described == [*Settings.model_fields, *TABLE.columns]
