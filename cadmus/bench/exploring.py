"""How fast the page of ``cadmus explore`` answers, in a real browser."""

import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from cadmus import isa
from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.errors import InputError

INSTRUCTIONS = 40
PROGRAMS = 30
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TYPE = """async (program) => {
  const main = document.querySelector("main");
  const field = document.getElementById("program");
  const drawn = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (main.ariaBusy !== "false") return;
      observer.disconnect();
      // Behind the next picture.
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0));
    });
    observer.observe(main, { attributeFilter: ["aria-busy"] });
  });
  const start = performance.now();
  field.value = program;
  field.dispatchEvent(new InputEvent("input"));
  return await drawn - start;
}"""
"""Types a program into the page; gives the milliseconds until everything is drawn."""


def find_browser() -> str | None:
    """The path of a browser of this machine, if there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def bench_explore(model: Path | None) -> Measured:
    """Milliseconds from a program of 40 instructions to what is said of it, on the server and in the page.

    The programs are uniform over all instructions but the end.  The server is asked for what the page asks
    for, both at a time; in the page it is the time from the last key to the picture, in which the page waits
    whether another key follows.

    Args:
        model: an export; if None, the one that comes with the checkout.

    Raises:
        InputError: there is no browser or no Playwright, or the model cannot be loaded.
    """
    browser = find_browser()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise InputError(
            "cadmus bench explore needs the package playwright: pip install playwright"
        ) from None
    if browser is None:
        raise InputError(f"cadmus bench explore needs a browser, one of {', '.join(BROWSERS)}")
    rng = np.random.default_rng(0)
    symbols = np.array([row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END])
    programs = ["".join(rng.choice(symbols, INSTRUCTIONS)) for _ in range(PROGRAMS)]
    chosen = [] if model is None else ["--model", str(model)]
    command = [sys.executable, "-m", "cadmus", "explore", "--no-browser", "--port", "0", *chosen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        said = re.search(r" at (http://\S+) ", server.stdout.readline())
        if said is None:
            raise InputError(server.stderr.read().strip().removeprefix("cadmus: error: "))
        try:
            of_server = [_milliseconds(said[1], program) for program in progress("server", programs)]
            with sync_playwright() as playwright:
                opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
                page = opened.new_page()
                page.goto(said[1])
                page.wait_for_selector("#lens td")
                of_page = [float(page.evaluate(TYPE, program)) for program in progress("page", programs)]
                opened.close()
        finally:
            server.send_signal(signal.SIGINT)
    return {
        "instructions": INSTRUCTIONS,
        "programs": PROGRAMS,
        "server_milliseconds": round(statistics.median(of_server), 1),
        "server_longest": round(max(of_server), 1),
        "page_milliseconds": round(statistics.median(of_page), 1),
        "page_longest": round(max(of_page), 1),
    }


def _milliseconds(address: str, program: str) -> float:
    """From asking for what the page asks for to having it."""
    paths = [("inspect", {"calls": "false"}), ("attention", {"layer": "1"})]

    def ask(path: str, fields: dict[str, str]) -> None:
        query = urllib.parse.urlencode({"program": program, **fields})
        with urllib.request.urlopen(f"{address}/api/{path}?{query}") as answer:
            answer.read()

    start = time.perf_counter()
    with ThreadPoolExecutor(len(paths)) as pool:
        for asked in [pool.submit(ask, *request) for request in paths]:
            asked.result()
    return 1000 * (time.perf_counter() - start)
