"""The page in a browser."""

import re
from urllib.request import urlopen

import numpy as np
import pytest
from playwright.sync_api import expect

from cadmus import isa
from cadmus.model import SNAPSHOTS
from cadmus.train.paths import find_snapshots, step_of
from dev.docs import demo
from tests.browsing import browser_page
from tests.checkout import ROOT

PROGRAM = r"\3*;5f72:bE2<i15="


@pytest.fixture
def page(address, browser):
    """The page in a browser; it may only contact its server, and no script may fail or complain."""
    troubles = []
    with browser_page(browser, viewport={"width": 1280, "height": 900}) as opened:
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("request", lambda asked: asked.url.startswith(address) or troubles.append(asked.url))
        opened.on("console", lambda message: troubles.append(message.text))
        opened.goto(f"{address}/#program=34%2B7%3D.")
        opened.wait_for_selector("#lens td")
        yield opened
    assert [trouble for trouble in troubles if not trouble.startswith("data:")] == []


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def test_opening(address, page, model):
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#lens td")
    program, prompt = page.input_value("#program"), page.locator("#after code").first.inner_text()
    completions, ended = model.complete([prompt])
    assert prompt + completions.to_strings()[0] + isa.END * bool(ended[0]) == program
    assert page.locator("#result").inner_text().startswith("true")
    symbol, assigned = texts(page, "#expected li")[0].split()
    assert symbol == program[len(prompt)]
    assert float(assigned.rstrip("%")) > 95


def test_steps(page, model):
    assert page.locator("#result").inner_text().startswith("true")
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


def test_tasks(page):
    page.select_option("#question", "less_greater")
    page.click("#draw")
    expect(page.locator("#task")).to_contain_text("Task, less greater: continue ")
    expect(page.locator("#task")).to_contain_text("Write <, = or >, whichever makes the program true.")
    page.click("#complete")
    expect(page.locator("#task b")).to_have_text("solved")
    # The visitor answers first: nothing is given away before.
    page.click("#beat")
    for hidden in ("#expected", "#result", "#stack", "#trace"):
        expect(page.locator(hidden)).to_be_hidden()
    prompt = page.input_value("#program")
    page.fill("#program", prompt + "7.")
    expect(page.locator("#task b")).to_have_text(["not solved", "solved"])
    # One of the numbers may be 0.
    why = r"not solved: (it is true, but has another form|the program is false)\. The model:"
    expect(page.locator("#task")).to_contain_text(re.compile(why))
    expect(page.locator("#expected")).to_be_visible()
    expect(page.locator("#stack")).to_be_visible()
    # Another program has no task.
    page.fill("#program", "12<")
    expect(page.locator("#task")).to_be_hidden()


def test_links_have_the_program_and_the_place(address, page):
    page.goto("about:blank")
    page.goto(f"{address}/#program=12%2B3%3D&place=3")
    expect(page.locator("#tokens .chosen b")).to_have_text("+")
    page.keyboard.press("ArrowRight")
    assert page.url.endswith("#program=12%2B3%3D&place=4")
    # A broken link shows what is wrong with it.
    for link, message in (("program=%E0%A4%A", "unknown symbol"), ("what", "the program is empty")):
        page.goto("about:blank")
        page.goto(f"{address}/#{link}")
        expect(page.locator("#error")).to_contain_text(message)
    page.goto(f"{address}/#program=12&place=99")
    expect(page.locator("#tokens .chosen b")).to_have_text("2")


def test_errors_keep_the_input(page):
    page.fill("#program", "34+7=q")
    expect(page.locator("#error")).to_contain_text("unknown symbol 'q' at position 6")
    assert page.input_value("#program") == "34+7=q"
    page.fill("#program", "34 + 7 q")
    expect(page.locator("#error")).to_contain_text("unknown symbol 'q' at position 8")
    page.fill("#program", "34+8=")
    expect(page.locator("#result")).to_contain_text("false · leaves")
    assert page.locator("#error").inner_text() == ""
    page.fill("#program", "1" * 10_000)
    expect(page.locator("#error")).to_contain_text("the program has 10000 instructions; at most 250")
    page.fill("#program", "34.5")
    expect(page.locator("#error")).to_be_hidden()


def test_nothing_of_an_earlier_program_stays_next_to_an_error(page):
    results = page.locator(".result, #example")
    for typed in ("34+7=q", " "):
        page.locator("#chips a").first.click()
        page.click("#complete")
        for each in results.all():
            expect(each).to_be_visible()
        page.fill("#program", typed)
        expect(page.locator("#error")).to_be_visible()
        for each in results.all():
            expect(each).to_be_hidden()
    # Neither keys nor a change of the size draw it again.
    page.locator("body").press("ArrowRight")
    page.set_viewport_size({"width": 400, "height": 800})
    expect(page.locator("#result")).to_be_hidden()
    page.fill("#program", "34+7=")
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#result")).to_be_visible()


def test_examples_are_explained_and_completed(page):
    examples = page.locator("#chips a")
    assert texts(page, "#chips a")[-1] == "out of range"
    for example in examples.all():
        example.click()
        expect(example).to_have_attribute("aria-current", "true")
        expect(page.locator("#example")).to_have_text(example.get_attribute("title"))
        prompt = page.input_value("#program")
        page.click("#complete")
        expect(page.locator("#result")).to_contain_text("the model wrote")
        completion = page.input_value("#program").removeprefix(prompt)
        assert page.locator("#result code").inner_text() == completion
        solved = example != examples.last and not page.locator("#result .false").count()
        assert solved == (example.inner_text() != "out of range")
    expect(page.locator("#result")).to_contain_text("false · leaves")
    expect(page.locator("#example")).to_contain_text("values compared in training are from -20 to 20")
    page.fill("#program", "34+7=")
    expect(page.locator("#example")).to_be_hidden()
    assert page.locator("#chips [aria-current]").count() == 0


def test_snapshots_predict_differently(page):
    predicted = []
    steps = [*sorted(map(step_of, find_snapshots(SNAPSHOTS))), None]
    assert page.locator("#snapshot").get_attribute("max") == str(len(steps) - 1)
    page.fill("#program", "62*4+54*4-")
    for number, step in enumerate(steps):
        page.fill("#snapshot", str(number))
        expect(page.locator("#step")).to_have_text("trained" if step is None else f"after {step:,} steps")
        predicted.append(page.locator("#expected").inner_text())
    assert len(set(predicted)) == len(steps)


@pytest.mark.parametrize("picture", [demo.ANIMATION, demo.SCREENSHOT])
def test_the_pictures_show_the_controls_of_the_page(page, picture):
    assert demo.shown_controls(ROOT / picture) == demo.controls(page), "run `python -m dev.docs demo`"


def test_the_server_sends_the_policy_of_the_page(address):
    with urlopen(address) as reply:
        page, sent = reply.read().decode(), reply.headers
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert sent["Content-Security-Policy"] == f"{policy}; frame-ancestors 'none'"
    assert sent["X-Frame-Options"] == "DENY"
