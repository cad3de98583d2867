"""Requests that a web page of another site makes a browser send."""

from collections.abc import Callable, Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL = {"localhost", "127.0.0.1", "::1"}


class HostCheck:
    """ASGI middleware that refuses foreign values of Host, Origin and Sec-Fetch-Site.

    A page whose name resolves to this machine (DNS rebinding) sends its own name as Host. An IP address is no
    name that a page could own. Origin is the page that sends the request; it must be on the same host or on
    this machine. Browsers leave it out for images and links; Sec-Fetch-Site tells if their page is foreign.

    Args:
        app: the application.
        names: names of this server besides ``localhost``.
        refuse: returns the response to a refused request from a message and a status.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], refuse: Callable[[str, int], ASGIApp]) -> None:
        self._app, self._refuse = app, refuse
        self._names = LOCAL | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            host, origin = _host_of("//" + headers.get(b"host", "")), headers.get(b"origin")
            if not (host in self._names or host.endswith(".localhost") or _is_address(host)):
                app = self._refuse("Host: not a name of this server; use localhost or its address", 400)
            elif origin is not None and _host_of(origin) not in self._names | {host}:
                app = self._refuse("Origin: pages of other sites are refused", 403)
            elif origin is None and headers.get(b"sec-fetch-site") == "cross-site":
                message = "Sec-Fetch-Site: pages of other sites are refused; enter the address by hand"
                app = self._refuse(message, 403)
        await app(scope, receive, send)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
