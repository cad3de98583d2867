"""``cadmus explore``: its answers, and the page in a real browser."""

import base64
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from playwright.sync_api import expect, sync_playwright
from starlette.testclient import TestClient

from cadmus import Cadmus, isa, run
from cadmus.bench import exploring
from cadmus.cli.bench import bench
from cadmus.config import LONGEST_PROGRAM, TEMPLATES, Dataset
from cadmus.errors import InputError
from cadmus.explore.application import PAGE, application
from cadmus.explore.inspection import read
from tests.checkout import ROOT, environment_of
from tests.model.models import FLOAT_NOISE

PROGRAM = r"\3*;5f72:bE2<i15="
BROWSER = exploring.find_browser()
START = 60
"""Seconds that the server may take to start on a busy machine."""


@pytest.fixture(scope="module")
def model():
    return Cadmus.load()


@pytest.fixture(scope="module")
def client(model):
    app = application(model, "laptop", Dataset())
    with TestClient(app, base_url="http://127.0.0.1") as test_client:
        yield test_client


def array(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def test_a_program_is_shown_as_the_machine_and_the_model_see_it(client, model):
    found = client.get("/api/inspect", params={"program": PROGRAM + ".", "calls": "false"}).json()
    assert (found["program"], found["ended"], found["true"]) == (PROGRAM, True, run(PROGRAM).true)
    assert [step["place"] for step in found["steps"]] == list(range(4, len(PROGRAM)))
    assert found["steps"][1]["stack"] == [15]
    assert found["steps"][4]["stack"] == [15, {"value": 7, "decoration": 2}]
    assert found["steps"][-1]["stack"] == found["outputs"]
    lens = array(found["lens"])
    assert lens.shape == (model.sizes.layers + 1, len(PROGRAM), isa.VOCABULARY_SIZE)
    np.testing.assert_allclose(np.log(lens[-1]), model.log_probabilities([PROGRAM])[0], atol=1e-3)
    ((_, shares),) = model.attention([PROGRAM])
    for layer in (1, model.sizes.layers):
        asked = client.get("/api/attention", params={"program": PROGRAM, "layer": layer}).json()
        np.testing.assert_allclose(array(asked), shares[layer - 1, 0], atol=FLOAT_NOISE)


def test_every_template_gives_true_programs_of_the_test_split(client):
    for template in TEMPLATES:
        program = client.get("/api/sample", params={"template": template}).json()["program"]
        assert run(program).true


def test_a_program_is_completed(client):
    assert client.get("/api/complete", params={"program": "62*4+54*4-"}).json() == {"program": "62*4+54*4-=."}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("inspect?program=34q&calls=false", "unknown symbol 'q' at position 3"),
        ("inspect?program=&calls=false", "the program is empty; type instructions"),
        ("inspect?program=.&calls=false", "the program is empty"),
        ("inspect", "program: missing"),
        ("inspect?calls=false&program=" + "1" * (LONGEST_PROGRAM + 1), f"at most {LONGEST_PROGRAM}"),
        ("attention?program=34&layer=0", "layer: must be 1 to 6, got 0"),
        ("attention?program=34&layer=x", "layer: must be an integer, got 'x'"),
        ("complete?program=34.", "has its end . at position 3"),
        ("sample?template=equalitty", "no template 'equalitty'"),
    ],
)
def test_what_is_wrong_is_said(client, path, message):
    answer = client.get(f"/api/{path}")
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_it_is_for_this_machine_alone(client):
    assert client.get("/", headers={"Host": "cadmus.example"}).status_code == 400
    assert client.get("/api/nothing").status_code == 404
    assert "default-src 'self'" in client.get("/").headers["Content-Security-Policy"]
    for path in PAGE.iterdir():
        assert not re.search(r"https?://|@import", path.read_text(encoding="utf-8")), path


def test_the_longest_program_is_read(client):
    assert read("1" * LONGEST_PROGRAM + ".") == "1" * LONGEST_PROGRAM
    longest = {"program": "1" * LONGEST_PROGRAM, "calls": "true"}
    assert client.get("/api/inspect", params=longest).status_code == 200


@pytest.fixture(scope="module")
def address():
    command = [sys.executable, "-m", "cadmus", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment_of(ROOT), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield re.search(r" at (http://127\.0\.0\.1:\d+) ", server.stdout.readline())[1]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(START) == 0


@pytest.fixture
def browser():
    """The path of one."""
    if BROWSER is None and os.environ.get("CI"):
        pytest.fail("there is no browser; `.ci/run` installs one")
    if BROWSER is None:
        pytest.skip(f"there is none of {', '.join(exploring.BROWSERS)}")
    return BROWSER


@pytest.fixture
def page(address, browser):
    """The page in a browser, which talks to nobody but the server and reports no error."""
    troubles = []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        opened = started.new_page(viewport={"width": 1280, "height": 900})
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("request", lambda asked: asked.url.startswith(address) or troubles.append(asked.url))
        opened.goto(f"{address}/#34%2B7%3D.")
        opened.wait_for_selector("#lens td")
        yield opened
        started.close()
    assert [trouble for trouble in troubles if not trouble.startswith("data:")] == []


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def test_the_page_steps_through_a_program(page, model):
    assert page.locator("#verdict").inner_text().startswith("true")
    page.fill("#program", PROGRAM + ".")
    expect(page.locator("#tokens li")).to_have_count(len(PROGRAM) + 1)
    assert [text[0] for text in texts(page, "#tokens b")] == [*PROGRAM, "."]
    page.click("#first")
    assert page.locator("#meaning").inner_text().startswith("\\ define")
    assert page.locator("#stack").inner_text() == "The stack is empty."
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.locator("#meaning").inner_text().startswith("f call 0")
    assert texts(page, "#stack .value") == ["15"]
    assert texts(page, "#trace tr.chosen td") == ["f", "15"]
    page.check("#calls")
    expect(page.locator("#trace tr.inside td:nth-child(2)")).to_have_text(["3", "*"])
    assert texts(page, "#trace tr.chosen td") == ["f", "15"]
    # What it expects there is what the model says.
    (found,) = model.log_probabilities([PROGRAM])
    shown = [line.split() for line in texts(page, "#expected li")]
    assert shown[0][0] == isa.INSTRUCTIONS[int(found[5].argmax())].symbol
    assert float(shown[0][1].rstrip("%")) == pytest.approx(100 * np.exp(found[5].max()), abs=0.51)
    assert page.locator("#expected .own").inner_text() == PROGRAM[6]


def test_the_page_shows_layers_and_heads(page, model):
    assert page.locator("#lens tbody tr").count() == model.sizes.layers + 1
    (first, *_), *_ = (row.split("\t")[1:] for row in texts(page, "#lens tbody tr"))
    ((_, logits),) = model.layer_logits(["34+7="])
    assert first == isa.INSTRUCTIONS[int(logits[-1, 0, 0].argmax())].symbol
    ((_, shares),) = model.attention(["34+7="])
    page.select_option("#layer", "2")
    expect(page.locator("#share")).to_contain_text("Block 2")
    page.locator("#heads button").nth(3).click()
    row = shares[1, 0, 3, -1]
    to = int(row.argmax())
    said = page.locator("#share").inner_text()
    assert said.startswith(f"Block 2, head 4: = (5) attends to {'34+7='[to]} ({to + 1}) with ")
    assert float(said.split()[-1].rstrip("%")) == pytest.approx(100 * row[to], abs=0.51)
    drawn = "canvas => Math.max(...canvas.getContext('2d').getImageData(0, 0, 5, 5).data)"
    assert page.locator("#heads canvas").first.evaluate(drawn) > 0


def test_the_page_samples_and_completes(page):
    page.select_option("#template", "equality")
    page.click("#sample")
    expect(page.locator("#program")).not_to_have_value("34+7=.", timeout=1000 * START)
    assert page.input_value("#program").endswith("=.")
    expect(page.locator("#tokens li")).to_have_count(len(page.input_value("#program")))
    expect(page.locator("#verdict")).to_contain_text("true")
    page.fill("#program", "62*4+54*4-")
    expect(page.locator("#tokens li")).to_have_count(10)
    page.click("#complete")
    expect(page.locator("#program")).to_have_value("62*4+54*4-=.")
    expect(page.locator("#tokens li")).to_have_count(12)


def test_the_page_says_what_is_wrong_and_loses_nothing(page):
    page.fill("#program", "34+7=q")
    expect(page.locator("#error")).to_contain_text("unknown symbol 'q' at position 6")
    assert page.input_value("#program") == "34+7=q"
    assert texts(page, "#tokens b") == [*"34+7=."]
    page.fill("#program", "34+8=")
    expect(page.locator("#verdict")).to_contain_text("false")
    assert page.locator("#error").inner_text() == ""
    assert page.url.endswith("#34%2B8%3D")


def test_the_benchmark_has_the_keys_of_its_help(browser, monkeypatch):
    monkeypatch.setattr(exploring, "PROGRAMS", 2)
    measured = json.loads(CliRunner().invoke(bench, ["explore", "--json"], catch_exceptions=False).stdout)
    described = CliRunner().invoke(bench, ["explore", "--help"]).stdout
    assert all(key in described for key in measured)
    assert 0 < measured["server_milliseconds"] <= measured["server_longest"]
    assert 0 < measured["page_milliseconds"] <= measured["page_longest"]


def test_the_benchmark_needs_a_browser_and_a_model(browser, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="is not a model export"):
        exploring.bench_explore(tmp_path)
    monkeypatch.setattr(exploring, "BROWSERS", ("netscape",))
    with pytest.raises(InputError, match="needs a browser, one of netscape"):
        exploring.bench_explore(None)
