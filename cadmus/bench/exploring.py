"""Response time of ``cadmus explore`` in a browser."""

import re
import shutil
import signal
import statistics
import subprocess
import sys
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from cadmus import isa
from cadmus.bench import Measured, seconds_of
from cadmus.errors import InputError
from cadmus.tools import progress

INSTRUCTIONS = 40
PROGRAMS = 30
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Types a program into the page; returns the milliseconds until everything is drawn.
TYPE = """async (program) => {
  const main = document.querySelector("main");
  const field = document.getElementById("program");
  const drawn = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (main.ariaBusy !== "false") return;
      observer.disconnect();
      // After the next frame.
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0));
    });
    observer.observe(main, { attributeFilter: ["aria-busy"] });
  });
  const start = performance.now();
  field.value = program;
  field.dispatchEvent(new InputEvent("input"));
  return await drawn - start;
}"""


def find_browser() -> str | None:
    """Return the path of an installed browser, if any."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def bench_explore(model: Path | None) -> Measured:
    """Measure the milliseconds from a new program to its results, on the server and in the page.

    Programs are uniform over all instructions but the end. The server gets the page's two requests at once.
    The page is timed from the last keystroke to the drawn frame, including its delay for further keystrokes.

    Args:
        model: directory of an exported model; None for the shipped one.

    Raises:
        InputError: the browser or Playwright is missing, or the model cannot be loaded.
    """
    browser = find_browser()
    from playwright.sync_api import sync_playwright

    if browser is None:
        raise InputError(f"cadmus bench explore: needs a browser, one of {', '.join(BROWSERS)}")
    rng = np.random.default_rng(0)
    symbols = np.array([row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END])
    programs = ["".join(rng.choice(symbols, INSTRUCTIONS)) for _ in range(PROGRAMS)]
    chosen = [] if model is None else ["--model", str(model)]
    command = [sys.executable, "-m", "cadmus", "explore", "--no-browser", "--port", "0", *chosen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        address = re.search(r" at (http://\S+) ", server.stdout.readline())
        if address is None:
            raise InputError(server.stderr.read().strip().removeprefix("cadmus: error: "))
        try:
            # The server fits its baseline and probe once, for seconds.
            urllib.request.urlopen(f"{address[1]}/api/references").close()
            server_times = [_milliseconds(address[1], program) for program in progress("server", programs)]
            with sync_playwright() as playwright:
                opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
                page = opened.new_page()
                page.goto(address[1])
                page.wait_for_selector("#lens td")
                page_times = [float(page.evaluate(TYPE, program)) for program in progress("page", programs)]
                opened.close()
        finally:
            server.send_signal(signal.SIGINT)
    rows = {
        name: {"milliseconds": round(statistics.median(times), 1), "longest": round(max(times), 1)}
        for name, times in (("server", server_times), ("page", page_times))
    }
    return Measured({"instructions": INSTRUCTIONS, "programs": PROGRAMS}, rows)


def _milliseconds(address: str, program: str) -> float:
    """Return the milliseconds until both requests of the page are answered."""
    paths = [("inspect", {"calls": "false"}), ("attention", {"layer": "1"})]

    def ask(path: str, fields: dict[str, str]) -> None:
        query = urllib.parse.urlencode({"program": program, **fields})
        with urllib.request.urlopen(f"{address}/api/{path}?{query}") as answer:
            answer.read()

    def ask_all() -> None:
        with ThreadPoolExecutor(len(paths)) as pool:
            for asked in [pool.submit(ask, *request) for request in paths]:
                asked.result()

    return 1000 * seconds_of(ask_all)
