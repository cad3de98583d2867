"""The files of the explorer's site, and a server that has those of the page before the data of the model."""

import asyncio
import re
from pathlib import Path
from threading import Event

from starlette.types import ASGIApp, Receive, Scope, Send

PAGE = Path(__file__).with_name("page")
DATA = "site.json"


def write_page(directory: Path) -> None:
    """Write the files that do not depend on the model."""
    for file in PAGE.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())


def headers() -> dict[str, str]:
    """Return HTTP headers for a server of the site: the policy of the page, and no page may embed it."""
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    # A page cannot forbid that others embed it, only a header.
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
    }


def waiting(app: ASGIApp, ready: Event) -> ASGIApp:
    """Let requests for anything but the page wait until its data are ``ready``."""
    of_page = {"/", *(f"/{file.name}" for file in PAGE.iterdir())}

    async def patient(scope: Scope, receive: Receive, send: Send) -> None:
        while scope["type"] == "http" and scope["path"] not in of_page and not ready.is_set():
            await asyncio.sleep(0.05)
        await app(scope, receive, send)

    return patient
