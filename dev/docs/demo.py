"""The animation on the first screen of the README: the explorer, filmed in a browser.

The machine executes a program, the model completes another one, and the model learns it: the slider goes
through the snapshots of its training. Three of these, with weights of 16 bits, are published for the slider
of the demo on the site.
"""

import io
import shutil
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from transformers import AutoModelForCausalLM

from cadmus.explore.site import write_site
from cadmus.model import DEFAULT_MODEL
from cadmus.model.export import read_metadata
from cadmus.model.inference import Cadmus
from cadmus.train.paths import find_snapshots, step_of

SIZE = {"width": 1000, "height": 880}
COLORS = 96
PROGRAM, PROMPT = "62*5+46*7-=.", r"9f\2-E1>R;1"
PUBLISHED = 150, 418, 1_162
"""Steps of the published snapshots."""
STEP, PAUSE = 350, 1_400
"""Milliseconds that a picture is shown."""
WAIT = 500
"""Milliseconds until the page has answered."""


def publish(snapshots: Path, root: Path) -> None:
    """Film the site with all snapshots of the training of the shipped model, and publish three of them."""
    for path in find_snapshots(snapshots):
        if step_of(path) in PUBLISHED:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float16)
            model.save_pretrained(root / "docs/results/laptop/snapshots" / path.name)
    config = read_metadata(DEFAULT_MODEL).config
    with tempfile.TemporaryDirectory() as folder:
        write_site(Cadmus.load(DEFAULT_MODEL), DEFAULT_MODEL.name, config, Path(folder), snapshots)
        _write(_shots(Path(folder)), root / "docs/assets/demo.gif")


def _shots(site: Path) -> list[tuple[Image.Image, int]]:
    """Return pictures of the page, and the milliseconds for which each is shown."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))))
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport=SIZE)
        page.goto(f"http://127.0.0.1:{server.server_port}/{_place(1)}")
        page.wait_for_selector("#lens td")
        shots = [(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), shown) for shown in _scenes(page)]
        server.shutdown()
    return shots


def _write(shots: list[tuple[Image.Image, int]], output: Path) -> None:
    # One palette for all, so that what stays the same is stored once; small areas keep their colors.
    palette = shots[0][0].quantize(COLORS, Image.Quantize.MAXCOVERAGE)
    first, *others = (shot.quantize(palette=palette, dither=Image.Dither.NONE) for shot, _ in shots)
    times = [shown for _, shown in shots]
    first.save(output, save_all=True, append_images=others, duration=times, loop=0, optimize=True)


def _place(step: int) -> str:
    return f"#program={quote(PROGRAM)}&place={step}"


def _scenes(page: Page) -> Iterator[int]:
    """Do one thing after another in the page; yield how long each is shown."""
    yield PAUSE
    for _ in PROGRAM[2:]:
        page.keyboard.press("ArrowRight")
        yield STEP
    yield PAUSE
    page.fill("#program", PROMPT)
    page.wait_for_timeout(WAIT)
    yield PAUSE
    page.click("#complete")
    page.wait_for_timeout(WAIT)
    yield PAUSE
    page.evaluate(f"location.hash = '{_place(len(PROGRAM) - 2)}'")
    steps = page.locator("#snapshot")
    for step in range(int(steps.get_attribute("max") or 0) + 1):
        steps.fill(str(step))
        page.wait_for_timeout(WAIT)
        yield STEP * 2
    yield PAUSE
