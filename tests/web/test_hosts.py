"""Values of Host and Origin that reach the application."""

import asyncio

import pytest

from cadmus.web.hosts import HostCheck


def status(host, origin=None, names=("Models.Example",), site=None):
    async def answer(status):
        return status

    def application(status):
        async def application(scope, receive, send):
            await send(status)

        return application

    sent = []

    async def send(message):
        sent.append(message)

    check = HostCheck(application(200), names, lambda message, status: application(status))
    headers = [(b"host", host)] * (host is not None) + [(b"origin", origin)] * (origin is not None)
    headers += [(b"sec-fetch-site", site)] * (site is not None)
    asyncio.run(check({"type": "http", "headers": headers}, None, send))
    return sent[0]


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"LOCALHOST:80",
        b"a.localhost:80",
        b"127.0.0.1:8000",
        b"[::1]:8000",
        b"192.0.2.7",
        b"models.example:1",
    ],
)
def test_own_names(host):
    assert status(host) == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b"evil.example",
        b"localhost.evil.example",
        b"127.0.0.1.evil.example",
        b"[",
        b"[::1",
        b"\xff",
        b"a:b:c",
    ],
)
def test_foreign_names(host):
    assert status(host) == 400


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (b"http://localhost:3000", 200),
        (b"http://192.0.2.7:3000", 200),
        (b"https://models.example", 200),
        (b"http://evil.example", 403),
        (b"http://192.0.2.8", 403),
        (b"null", 403),
        (b"http://[", 403),
    ],
)
def test_origin(origin, expected):
    assert status(b"192.0.2.7", origin) == expected


@pytest.mark.parametrize(
    ("site", "origin", "expected"),
    [
        (b"none", None, 200),
        (b"same-origin", None, 200),
        (b"same-site", None, 200),
        (b"cross-site", None, 403),
        # localhost and 127.0.0.1 are two sites of one machine.
        (b"cross-site", b"http://localhost:3000", 200),
    ],
)
def test_site_of_requests_without_an_origin(site, origin, expected):
    assert status(b"127.0.0.1", origin, site=site) == expected
