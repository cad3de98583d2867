"""Pages in a browser, which may take its time on a busy machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from dev.measure import PATIENCE

MILLISECONDS = 1000 * PATIENCE


@contextmanager
def browser_page(browser: str, **options: Any) -> Iterator[Page]:
    """Yield a new page of the browser with this path; ``options`` are Playwright's."""
    expect.set_options(timeout=MILLISECONDS)
    arguments = ["--no-sandbox", "--disable-gpu"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=arguments, timeout=MILLISECONDS)
        page = started.new_page(**options)
        page.set_default_timeout(MILLISECONDS)
        yield page
        started.close()
