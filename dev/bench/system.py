"""Times that a user sees: start-up, the explorer in a browser, work next to busy processes."""

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch

from cadmus import config as configs
from cadmus import isa
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.shards import plan, write_shard
from cadmus.experiments.probe import Settings, prefix_ids, score
from cadmus.model.inference import Cadmus
from cadmus.tools import cores, progress
from cadmus.train.paths import RunPaths
from dev.bench import flat, models
from dev.measure import Facts, median_seconds, seconds_of

PROCESSES = {
    "python": ("-c", "pass"),
    "import": ("-c", "import cadmus"),
    "help": ("-m", "cadmus", "--help"),
    "run": ("-m", "cadmus", "run", "34+7="),
}
"""Arguments of Python; ``python`` does nothing."""
STARTS = 15
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
INSTRUCTIONS, PROGRAMS = 40, 30
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
BUSY = (0, 1, 2)
"""Numbers of processes that compute next to the measured one."""
REPEATS, SECONDS = 3, 10.0
"""Measurements of each rate, and the length of one."""
SETTLE = 2.0
"""Seconds after a change of the busy processes in which nothing is measured."""
PROMPTS = 500
TRAINING_PROGRAMS = 2_000
"""Training programs per template; more would only be read for longer."""
PROBED = Settings(
    train_programs=1_000, validation_programs=200, test_programs=200, inverse_regularisation=[0.1]
)
Rate = Callable[[float], float]
"""Works for some seconds and returns the work per second."""


def start() -> Facts:
    """Measure the wall-clock seconds of :data:`PROCESSES`."""
    actions = {
        name: partial(subprocess.run, [sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        for name, arguments in PROCESSES.items()
    }
    rows = {name: {"seconds": round(taken, 3)} for name, taken in median_seconds(actions, STARTS).items()}
    return flat({"repeats": STARTS}, rows)


def find_browser() -> str | None:
    """Return the path of an installed browser, if any."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def explore(model: Path = models.SHIPPED) -> Facts:
    """Measure the milliseconds from a new program to its results, on the server and in the page.

    Programs are uniform over all instructions but the end. The server gets the page's two requests at once.
    The page is timed from the last keystroke to the drawn frame, including its delay for further keystrokes.
    """
    from playwright.sync_api import sync_playwright

    if (browser := find_browser()) is None:
        raise SystemExit(f"bench explore: needs a browser, one of {', '.join(BROWSERS)}")
    rng = np.random.default_rng(0)
    symbols = np.array([row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END])
    programs = ["".join(rng.choice(symbols, INSTRUCTIONS)) for _ in range(PROGRAMS)]
    command = [sys.executable, "-m", "cadmus", "explore", "--no-browser", "--port=0", f"--model={model}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        address = re.search(r" at (http://\S+) ", server.stdout.readline())[1]
        try:
            # The server fits its baseline and probe once, for seconds.
            urllib.request.urlopen(f"{address}/api/references").close()
            server_times = [_milliseconds(address, program) for program in progress("server", programs)]
            with sync_playwright() as playwright:
                opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
                page = opened.new_page()
                page.goto(address)
                page.wait_for_selector("#lens td")
                page_times = [page.evaluate(TYPE, program) for program in progress("page", programs)]
                opened.close()
        finally:
            server.send_signal(signal.SIGINT)
    rows = {
        name: {"milliseconds": round(statistics.median(times), 1), "longest": round(max(times), 1)}
        for name, times in (("server", server_times), ("page", page_times))
    }
    return flat({"instructions": INSTRUCTIONS, "programs": PROGRAMS}, rows)


def _milliseconds(address: str, program: str) -> float:
    """Return the milliseconds until both requests of the page are answered."""
    paths = (("inspect", {"calls": "false"}), ("attention", {"layer": "1"}))
    urls = [
        f"{address}/api/{path}?{urllib.parse.urlencode({'program': program, **fields})}"
        for path, fields in paths
    ]

    def ask(url: str) -> bytes:
        with urllib.request.urlopen(url) as answer:
            return answer.read()

    with ThreadPoolExecutor() as pool:
        return 1000 * seconds_of(lambda: list(pool.map(ask, urls)))


def busy(config: Path, model: Path = models.SHIPPED) -> Facts:
    """Measure the rates of a training, completions and probes alone and next to processes that never wait.

    The fair share of w threads next to b busy ones on c cores is the part of its rate alone that is left if
    all threads get the same time.
    """
    features, programs, targets = models.probed(model, PROBED)
    tensors = torch.from_numpy(features)
    prompts = programs.prefixes(programs.lengths - 1).take(np.arange(PROMPTS))
    loaded = Cadmus.load(model)
    measured = {
        "evaluation": _rates(_repeated(lambda: loaded.complete(prompts))),
        "probes": _rates(_repeated(lambda: score(tensors, targets, prefix_ids(programs), PROBED))),
    }
    with tempfile.TemporaryDirectory() as folder, _training(config, Path(folder)) as rate:
        measured["training"] = _rates(rate)
    threads, available = torch.get_num_threads(), cores()
    fair = {count: fair_share(threads, count, available) for count in BUSY[1:]}
    rows: dict[str, Facts] = {}
    for name, rates in measured.items():
        rows[name] = {"alone": float(f"{rates[0]:.3g}")}
        for count, share in fair.items():
            rows[name][f"beside_{count}"] = round(rates[count] / rates[0], 3)
            rows[name][f"of_fair_{count}"] = round(rates[count] / rates[0] / share, 3)
    facts = {"cores": available, "threads": threads, "repeats": REPEATS}
    return flat(facts | {f"fair_{count}": round(share, 3) for count, share in fair.items()}, rows)


def fair_share(threads: int, busy: int, available: int) -> float:
    """Return the part of its rate alone that remains for some threads next to busy ones, on some cores."""
    alone = min(threads, available)
    return min(alone, available * threads / max(threads + busy, available)) / alone


def _rates(rate: Rate) -> dict[int, float]:
    """Return the median rate next to each number of busy processes, which take turns."""
    found: dict[int, list[float]] = {count: [] for count in BUSY}
    for _ in progress("repeats", range(REPEATS)):
        for count, rates in found.items():
            # In sessions of their own, as the processes of other users are.
            command = [sys.executable, "-c", "while True: pass"]
            others = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
            try:
                time.sleep(SETTLE)
                rates.append(rate(SECONDS))
            finally:
                for process in others:
                    process.kill()
                    process.wait()
    return {count: statistics.median(rates) for count, rates in found.items()}


def _repeated(action: Callable[[], object]) -> Rate:
    """Return the rate of an action that is repeated, after a first time for what it compiles and caches."""
    action()

    def rate(seconds: float) -> float:
        start, done = time.perf_counter(), 0
        while (taken := time.perf_counter() - start) < seconds:
            action()
            done += 1
        return done / taken

    return rate


@contextmanager
def _training(path: Path, folder: Path) -> Iterator[Rate]:
    """Train in processes of their own, as ``cadmus train`` does, and yield the rate in tokens."""
    values = configs.load_config(path).model_dump()
    values["train"] |= {"steps": 1_000_000, "checkpoint_every": 1_000_000, "verdict": {"fraction": 0.0}}
    values["dataset"] |= {"validation": 100, "test": 100}
    for template in values["dataset"]["templates"].values():
        template["train"] = min(template["train"], TRAINING_PROGRAMS)
    (folder / "config.yaml").write_text(configs.as_yaml(values))
    run = configs.load_config(folder / "config.yaml")
    for shard in progress("shards", plan(run), unit="shard"):
        write_shard(run, folder / "dataset", shard.template, shard.split, shard.number)
    write_manifest(run, folder / "dataset")
    paths = RunPaths(folder / "checkpoints", folder / "model", folder / "metrics.jsonl")
    written = paths.partial().metrics
    options = {"checkpoints": paths.checkpoints, "output": paths.export, "metrics": paths.metrics}
    options |= {"config": folder / "config.yaml", "dataset": folder / "dataset"}
    command = [sys.executable, "-m", "cadmus", "train", *(f"--{k}={path}" for k, path in options.items())]

    def rate(seconds: float) -> float:
        before = json.loads(written.read_text().splitlines()[-1])
        time.sleep(seconds)
        after = json.loads(written.read_text().splitlines()[-1])
        return (after["tokens"] - before["tokens"]) / (after["seconds"] - before["seconds"])

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not written.exists() or written.read_bytes().count(b"\n") < 5:
            if process.poll() is not None:
                raise SystemExit("bench busy: the training failed")
            time.sleep(0.1)
        yield rate
    finally:
        process.terminate()
        process.wait()
