"""The explorer's site: its files, and its machine, model and grader in JavaScript against ours."""

import json
import re
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Thread
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from cadmus.api import tasks, verify
from cadmus.config import OF_THE_PAPER
from cadmus.evaluate.questions import QUESTIONS
from cadmus.explore import site
from cadmus.explore.files import DATA, PAGE, serve
from cadmus.explore.site import write_site
from cadmus.model import SNAPSHOTS
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.templates.complete_algorithm import calls_in
from cadmus.train.paths import find_snapshots
from cadmus.vm import reference
from dev.fuzz import CHUNK, programs_of
from dev.measure import PATIENCE
from tests.browsing import browser_page
from tests.checkout import ROOT
from tests.commands import invoke, python, refused
from tests.model.models import SIZES

PAPER = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Paper"]
FUZZED = 100_000
ASKED = 16
"""Tasks of each question that the model completes."""
PREPARE = """async () => {
  const [{ makeMachine }, { makeGrader }, { GPT }] = await Promise.all(
    ["machine", "grade", "gpt"].map((name) => import(`./${name}.js`)));
  const site = await (await fetch("site.json")).json();
  const machine = makeMachine(site);
  const model = new GPT(site.model, await (await fetch("model.bin")).arrayBuffer());
  Object.assign(window, { site, machine, grade: makeGrader(site, machine), model });
}"""
RUN = """(programs) => programs.map((program) => {
  const { outputs, true: isTrue } = machine.trace(program);
  return [outputs, isTrue];
})"""
TRACE = "(programs) => programs.map((program) => machine.trace(program, true).steps.map(Object.values))"
COMPLETE = """(tasks) => tasks.map((task) => {
  const symbols = site.instructions.map((row) => row.symbol);
  const tokens = (text) => [...text].map((symbol) => symbols.indexOf(symbol));
  const shares = (text) => [...model.forward(tokens(text)).at(-1).lens.at(-1)];
  let text = task.prompt;
  const first = shares(text);
  while (!text.endsWith(".")) {
    const next = shares(text);
    const symbol = symbols[next.indexOf(Math.max(...next))];
    if (symbol !== "." && text.length >= site.model.max_length) break;
    text += symbol;
  }
  const ended = text.endsWith(".");
  const completion = text.slice(task.prompt.length, ended ? -1 : undefined);
  const solved = (text, ended) => grade(task, text, ended).solved;
  return [completion, ended, solved(completion, ended), first, solved(task.other, true)];
})"""


@pytest.fixture(scope="module")
def written_site(tmp_path_factory):
    """Return the directory of the site that the command writes."""
    directory = tmp_path_factory.mktemp("explore") / "site"
    assert invoke("explore", static=directory).exit_code == 0
    return directory


@pytest.fixture(scope="module")
def page(written_site, browser):
    handler = partial(Quiet, directory=written_site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser_page(browser) as opened:
        Thread(target=server.serve_forever, daemon=True).start()
        opened.goto(f"http://127.0.0.1:{server.server_port}/explore.css")
        opened.evaluate(PREPARE)
        yield opened
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, *arguments):
        pass


def written(value):
    """Return a value as the page writes it."""
    if isinstance(value, reference.Sequence):
        return [written(number) for number in value]
    return None if value is None else value._asdict()


def test_the_machine_in_the_page(page):
    programs = [text for chunk in range(-(-FUZZED // CHUNK)) for text in programs_of(5, chunk)][:FUZZED]
    results = map(reference.run, programs)
    expected = [[list(map(written, result.outputs)), result.true] for result in results]
    found = page.evaluate(RUN, programs)
    assert [text for text, *pair in zip(programs, found, expected, strict=True) if pair[0] != pair[1]] == []
    some = programs[:2_000]
    traced = [
        [
            [step.position, step.depth, list(map(written, step.stack))]
            for step in reference.trace(text, calls=True)
        ]
        for text in some
    ]
    assert page.evaluate(TRACE, some) == traced


def test_an_instruction_without_a_case_in_the_page_is_said(page):
    said = page.evaluate("""async () => {
      const { makeMachine } = await import("./machine.js");
      const instructions = [...site.instructions, { ...site.instructions[20], name: "square" }];
      try { makeMachine({ ...site, instructions }); } catch (error) { return error.message; }
    }""")
    assert said == "square: no case in machine.js; add one"


def test_the_model_and_the_grader_in_the_page(page):
    model = Cadmus.load()
    # As the page has the weights; some completions are close calls.
    for weights in model.model.parameters():
        weights.copy_(weights.half().float())
    asked, expected = [], []
    for name, question in QUESTIONS.items():
        drawn = [
            task
            for task, _ in zip(tasks(question.template, "test", question=name), range(ASKED), strict=False)
        ]
        texts, ended = model.complete([task.prompt for task in drawn])
        form, _ = site.FORMS.get(question.solves, site.ANYTHING)
        others = [task.reference for task in drawn[1:] + drawn[:1]]
        for task, text, end, other in zip(drawn, texts.to_strings(), ended.tolist(), others, strict=True):
            calls = calls_in(task.prompt) if form == "induction" else None
            asked.append(
                {
                    "prompt": task.prompt,
                    "reference": task.reference,
                    "form": form,
                    "calls": calls,
                    "other": other,
                }
            )
            grades = [
                verify(task, completion, ended=of).solved for completion, of in ((text, end), (other, True))
            ]
            expected.append([text, end, *grades])
    found = page.evaluate(COMPLETE, asked)
    assert [[text, ended, solved, other] for text, ended, solved, _, other in found] == expected
    shares = [np.exp(of[-1]) for of in model.log_probabilities([task["prompt"] for task in asked])]
    np.testing.assert_allclose([row[3] for row in found], shares, atol=1e-4)


@pytest.mark.parametrize("activation", ["gelu", "relu2"])
def test_models_of_all_kinds_are_written(activation, tmp_path):
    sizes = SIZES.model_copy(update={"activation": activation, "tied": False})
    write_site(Cadmus(GPT(sizes)), "untied", None, tmp_path / "site")
    numbers = sum(tensor.numel() for tensor in GPT(sizes).parameters())
    assert (tmp_path / "site/model.bin").stat().st_size == 2 * numbers


def test_the_command_writes_a_site(written_site, tmp_path):
    opened = {path.name for path in PAGE.iterdir()} | {DATA, "model.bin"}
    snapshots = {f"{path.name}.bin" for path in find_snapshots(SNAPSHOTS)}
    assert {path.name for path in written_site.iterdir()} == opened | snapshots
    assert sum((written_site / name).stat().st_size for name in opened) < 3_600_000
    data = json.loads((written_site / DATA).read_text())
    trained = [name for name, question in QUESTIONS.items() if question.template in OF_THE_PAPER]
    assert list(data["questions"]) == trained
    assert {QUESTIONS[name].template for name in data["questions"]} == set(OF_THE_PAPER)
    assert [each["file"] for each in data["models"]] == [*sorted(snapshots), "model.bin"]
    # An earlier site is replaced, nothing else.
    (written_site / DATA).write_text("{}")
    assert invoke("explore", static=written_site).exit_code == 0
    assert json.loads((written_site / DATA).read_text()) == data
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    assert "is not empty" in refused("explore", static=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_the_page_loads_nothing_from_other_sites():
    for path in PAGE.iterdir():
        # A link loads nothing until someone follows it.
        text = path.read_text(encoding="utf-8").replace(f'<a href="{PAPER}">', "")
        assert not re.search(r"https?://|@import", text), path


def test_the_page_links_the_documentation(tmp_path):
    write_site(Cadmus(GPT(SIZES)), "small", None, tmp_path, documentation="../index.html")
    assert json.loads((tmp_path / DATA).read_text())["documentation"] == "../index.html"


def test_the_site_is_served_to_this_machine_alone(tmp_path):
    asked = SimpleQueue()
    write_site(Cadmus(GPT(SIZES)), "small", None, tmp_path)
    Thread(target=serve, args=(tmp_path, 0, asked.put), daemon=True).start()
    address = asked.get(timeout=PATIENCE)
    for name, kind in {"": "text/html", "explore.js?1": "text/javascript", "explore.css": "text/css"}.items():
        page = urlopen(f"{address}/{name}")
        assert (page.headers["Content-Type"], len(page.read()) > 0) == (kind, True)
    with pytest.raises(HTTPError, match="403"):
        urlopen(Request(address, headers={"Host": "evil.example"}))
    taken = address.rpartition(":")[2]
    message = refused("explore", port=taken)
    assert message.startswith(f"cannot listen on 127.0.0.1, port {taken}: Address already in use; choose")


def test_a_model_that_does_not_load_ends_the_server(tmp_path):
    done = python("-m", "cadmus", "explore", "--no-browser", "--port", "0", "--model", str(tmp_path))
    assert done.returncode == 2
    said = f"{tmp_path} is not a model export: {tmp_path / 'meta.json'}: no such file"
    assert done.stderr == f"cadmus: error: {said}\n"
