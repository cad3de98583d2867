"""The page in a browser."""

import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

from cadmus import isa
from tests.checkout import ROOT, environment_of

PROGRAM = r"\3*;5f72:bE2<i15="

TIMEOUT = 60
"""Seconds to start the server on a busy machine."""


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
            assert server.wait(TIMEOUT) == 0


@pytest.fixture
def page(address, browser):
    """The page in a browser; it may only contact its server, and no script may fail."""
    troubles = []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        opened = started.new_page(viewport={"width": 1280, "height": 900})
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("request", lambda asked: asked.url.startswith(address) or troubles.append(asked.url))
        opened.goto(f"{address}/#34%2B7%3D.")
        opened.wait_for_selector("#lens td")
        # The page is drawn again when the server has fitted the baseline and the probe.
        expect(opened.locator("#probe")).to_contain_text("Accuracy", timeout=1000 * TIMEOUT)
        yield opened
        started.close()
    assert [trouble for trouble in troubles if not trouble.startswith("data:")] == []


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def test_opening(address, page, model):
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#probe")).to_contain_text("Accuracy", timeout=1000 * TIMEOUT)
    program, prompt = page.input_value("#program"), page.locator("#after code").first.inner_text()
    completions, ended = model.complete([prompt])
    assert prompt + completions.to_strings()[0] + isa.END * bool(ended[0]) == program
    assert page.locator("#verdict").inner_text().startswith("true")
    symbol, assigned, bigram = texts(page, "#expected li")[0].split()
    assert symbol == program[len(prompt)]
    assert float(bigram.rstrip("%")) < 50 < 95 < float(assigned.rstrip("%"))
    # The probe reads what is on top of the stack, which is shown last.
    for row in page.locator("#trace tbody tr").all():
        assert row.locator(".right").inner_text().split()[0] == row.locator(".value").last.inner_text()


def test_steps(page, model):
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
    assert texts(page, "#trace tr.chosen td:is(:nth-child(2), :last-child)") == ["f", "15"]
    page.check("#calls")
    expect(page.locator("#trace tr.inside td:nth-child(2)")).to_have_text(["3", "*"])
    assert texts(page, "#trace tr.chosen td:is(:nth-child(2), :last-child)") == ["f", "15"]
    # The predictions match the model.
    (found,) = model.log_probabilities([PROGRAM])
    shown = [line.split() for line in texts(page, "#expected li")]
    assert shown[0][0] == isa.INSTRUCTIONS[int(found[5].argmax())].symbol
    assert float(shown[0][1].rstrip("%")) == pytest.approx(100 * np.exp(found[5].max()), abs=0.51)
    assert page.locator("#expected .own").inner_text() == PROGRAM[6]


def test_layers_and_heads(page, model):
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


def test_probabilities_below_a_tenth_of_a_percent_are_listed_for_the_baseline(page, model):
    page.fill("#program", "62*4+54*4-=.")
    expect(page.locator("#tokens li")).to_have_count(12)
    page.click("#last")
    (found,) = model.log_probabilities(["62*4+54*4-="])
    listed = min(8, int((np.exp(found[-1]) >= 0.0005).sum()))
    assigned, bigrams = (texts(page, f"#expected .share:nth-last-child({place})") for place in (2, 1))
    assert len(assigned) == 8
    assert assigned[listed:] == ["<0.1%"] * (8 - listed)
    assert "<0.1%" not in assigned[:listed] + bigrams[listed:]
    assert "0.0%" not in page.locator("main").inner_text()


def test_sample_and_complete(page):
    page.select_option("#template", "equality")
    page.click("#sample")
    expect(page.locator("#program")).not_to_have_value("34+7=.", timeout=1000 * TIMEOUT)
    assert page.input_value("#program").endswith("=.")
    expect(page.locator("#tokens li")).to_have_count(len(page.input_value("#program")))
    expect(page.locator("#verdict")).to_contain_text("true")
    page.fill("#program", "62*4+54*4-")
    expect(page.locator("#tokens li")).to_have_count(10)
    page.click("#complete")
    expect(page.locator("#program")).to_have_value("62*4+54*4-=.")
    expect(page.locator("#tokens li")).to_have_count(12)


def test_errors_keep_the_input(page):
    page.fill("#program", "34+7=q")
    expect(page.locator("#error")).to_contain_text("unknown symbol 'q' at position 6")
    assert page.input_value("#program") == "34+7=q"
    assert texts(page, "#tokens b") == [*"34+7=."]
    page.fill("#program", "34+8=")
    expect(page.locator("#verdict")).to_contain_text("false")
    assert page.locator("#error").inner_text() == ""
    assert page.url.endswith("#34%2B8%3D")
