"""The files of the explorer's page, and a server for its site."""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cadmus.errors import InputError

PAGE = Path(__file__).with_name("page")
DATA = "site.json"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json"}
HOSTS = ("127.0.0.1", "localhost")
"""The server listens on the first; a page of another site would come under a name of its own."""


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


def serve(directory: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serve a site to this machine until Ctrl-C; port 0 is any free one. ``announce`` gets the address."""
    try:
        server = _Server((HOSTS[0], port), partial(_Handler, directory=str(directory)))
    except OSError as error:
        problem = f"cannot listen on {HOSTS[0]}, port {port}: {error.strerror}"
        raise InputError(f"{problem}; choose another --port") from None

    with server, suppress(KeyboardInterrupt):
        announce(f"http://{HOSTS[0]}:{server.server_port}")
        server.serve_forever()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser may leave at any time.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(SimpleHTTPRequestHandler):
    of_each = headers()
    # Before the table of the system, which may be wrong for JavaScript.
    extensions_map = TYPES

    def send_head(self) -> Any:
        # All requests come here.
        if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in HOSTS:
            self.send_error(403, "asked by another name than localhost")
            return None
        return super().send_head()

    def end_headers(self) -> None:
        for name, value in self.of_each.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        pass
