"""Pictures: the animation in the README, the screenshot in docs/explorer.md, and a card for sharing.

In the animation the machine executes a program, `flagship` completes another, and `laptop` learns the first:
its slider goes through the snapshots of the training. Both pictures list the controls of the page that they
show, so that a test can compare them with the page.
"""

import base64
import io
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright
from transformers import AutoModelForCausalLM

from cadmus.explore.site import write_site
from cadmus.model import DEFAULT_MODEL, SNAPSHOTS, find_model
from cadmus.model.export import read_metadata
from cadmus.model.inference import Cadmus
from cadmus.train.paths import find_snapshots, step_of

ANIMATION, SCREENSHOT = "docs/assets/demo.gif", "docs/assets/explore.png"
ANIMATION_SIZE, SCREENSHOT_SIZE = {"width": 1000, "height": 450}, {"width": 1280, "height": 880}
LARGE = "document.body.style.zoom = 1.3"
LEFT_OUT = "h1, .note, #instructions, #chips, #inside, #controls, #trace, #after, .option:has(#question)"
"""In the animation, the type is large and these parts of the page are left out."""
CARD = "docs/assets/card.png"
"""For previews of links to the repository."""
CARD_HTML = """
<body style="margin: 0; width: 1200px; height: 630px; display: grid; grid-template-columns: 630px 490px;
  align-items: center; gap: 30px; padding-left: 30px; box-sizing: border-box; font: 30px sans-serif">
<div><h1 style="font-size: 68px; margin: 0 0 16px">Cadmus</h1>
<p style="font-size: 36px">Train a GPT in minutes on a laptop, in a world where every program, answer
and hidden state is known exactly.</p>
<p style="font: 34px monospace; color: #0072B2">62*4+54*4-=</p><p>6·2+4 = 5·4−4</p></div>
<div style="width: 490px; height: 490px; overflow: hidden">
<img src="data:image/png;base64,{grid}" style="width: 1000px; margin-top: -28px"></div></body>"""
"""With the left half of the comparison grid."""
COLORS = 96
FLAGSHIP = find_model("flagship")
PROGRAM, PROMPT = "62*5+46*7-=.", r"9f\2-E1>R;1"
PUBLISHED = 150
"""Step of the published snapshot."""
STEP, PAUSE, LEARNING = 350, 1_400, 2_500
"""Milliseconds that a picture is shown."""
WAIT = 500
"""Milliseconds until the page has answered."""
NAMES = """() => {
  const own = (each) => [...each.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
  const shown = document.querySelectorAll("h2, summary, thead th, label, button[id], #chips > *");
  return [...shown].map((each) => own(each).map((node) => node.data.trim()).join(""));
}"""
"""Names of the headings, columns, examples and controls of the page."""


def publish_snapshots(snapshots: Path, root: Path) -> None:
    """Publish a snapshot of the training of the shipped model, with weights of 16 bits."""
    for path in find_snapshots(snapshots):
        if step_of(path) == PUBLISHED:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float16)
            model.save_pretrained(root / "docs/models/laptop/snapshots" / path.name)


def publish(root: Path) -> None:
    """Film and photograph what `cadmus explore` shows: `flagship`, and how `laptop` learned."""
    with tempfile.TemporaryDirectory() as folder, _browser(Path(folder)) as (browser, server):
        for model, snapshots in ((DEFAULT_MODEL, SNAPSHOTS), (FLAGSHIP, None)):
            config = read_metadata(model).config
            write_site(Cadmus.load(model), model.name, config, Path(folder, model.name), snapshots)
        laptop, flagship = (f"{server}{model.name}/" for model in (DEFAULT_MODEL, FLAGSHIP))
        page = browser.new_page(viewport=SCREENSHOT_SIZE)
        _open(page, laptop)
        names = json.dumps(controls(page))
        described = PngInfo()
        described.add_text("controls", names)
        _screenshot(page, full_page=True).save(root / SCREENSHOT, optimize=True, pnginfo=described)
        page.set_viewport_size(ANIMATION_SIZE)
        shots = []
        last = _place(len(PROGRAM) - 2)
        for scenes, address in ((_scenes, f"{flagship}{_place(1)}"), (_learning, f"{laptop}{last}")):
            _open(page, address)
            # The policy of the page allows no other styles.
            page.evaluate(
                f"for (const each of document.querySelectorAll('{LEFT_OUT}')) each.style.display = 'none'"
            )
            page.evaluate(LARGE)
            shots += [(_screenshot(page), shown) for shown in scenes(page)]
        _write(shots, names, root / ANIMATION)
        _card(browser, root).save(root / CARD, optimize=True)


def controls(page: Page) -> list[str]:
    """Return the names of the controls of the opened page."""
    return page.evaluate(NAMES)


def shown_controls(picture: Path) -> list[str]:
    """Return the names of the controls when a picture was made."""
    with Image.open(picture) as image:
        return json.loads(image.info["controls" if image.format == "PNG" else "comment"])


@contextmanager
def _browser(site: Path) -> Iterator[tuple[Browser, str]]:
    """Yield a browser, and the address of the files in a directory."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))))
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield chromium, f"http://127.0.0.1:{server.server_port}/"
        chromium.close()
        server.shutdown()


def _open(page: Page, address: str) -> None:
    # From another page: a change of the fragment alone would not load it.
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#lens td")


def _screenshot(page: Page, full_page: bool = False) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot(full_page=full_page))).convert("RGB")


def _card(browser: Browser, root: Path) -> Image.Image:
    """Return a picture of 1200 x 630, the size that sites show of a link."""
    grid = (root / f"docs/models/{FLAGSHIP.name}/comparison_grid.png").read_bytes()
    page = browser.new_page(viewport={"width": 1200, "height": 630})
    page.set_content(CARD_HTML.format(grid=base64.b64encode(grid).decode()))
    return _screenshot(page)


def _write(shots: list[tuple[Image.Image, int]], comment: str, output: Path) -> None:
    # One palette for all, so that what stays the same is stored once; small areas keep their colors.
    palette = shots[0][0].quantize(COLORS, Image.Quantize.MAXCOVERAGE)
    first, *others = (shot.quantize(palette=palette, dither=Image.Dither.NONE) for shot, _ in shots)
    times = [shown for _, shown in shots]
    first.save(
        output, save_all=True, append_images=others, duration=times, loop=0, optimize=True, comment=comment
    )


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


def _learning(page: Page) -> Iterator[int]:
    """Go through the snapshots of the training; yield how long each is shown."""
    steps = page.locator("#snapshot")
    for step in range(int(steps.get_attribute("max") or 0) + 1):
        steps.fill(str(step))
        page.wait_for_selector("#step:not(:text('loading'))")
        page.wait_for_timeout(WAIT)
        yield LEARNING
