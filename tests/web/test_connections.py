"""Slow clients and many connections, on a server in a process of its own."""

import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection

import pytest

from tests.checkout import ROOT, environment_of

SERVER = """
import asyncio, signal
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from cadmus.cli.server import listening, run_server, stoppable
from cadmus.web import connections

connections.PATIENCE, connections.MAX_CONNECTIONS = {patience}, {most}

async def slow(request):
    print("slow", flush=True)
    await asyncio.sleep(2)
    return Response("slow")

async def echo(request):
    return Response(await request.body(), headers={{"Content-Type": "text/plain"}})

async def large(request):
    return Response(bytes(50 << 20))

async def left(request, error):
    return Response(status_code=400)

routes = [Route("/slow", slow), Route("/echo", echo, methods=["GET", "POST"]), Route("/large", large)]
with stoppable(), listening("127.0.0.1", 0) as listener:
    print(listener.getsockname()[1], flush=True)
    run_server(Starlette(routes=routes, exception_handlers={{ClientDisconnect: left}}), listener)
"""
HALF_OPEN = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
BODY = HALF_OPEN + b"Content-Length: 9\r\n\r\n"


@contextmanager
def server(patience=30.0, most=512, descriptors=1024):
    """Yield a server's standard output and a function that connects; check that it logs nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(patience=patience, most=most)],
        cwd=ROOT,
        env=environment_of(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)),
    )
    with ExitStack() as stack:
        stack.callback(process.communicate)
        stack.callback(process.kill)
        address = "127.0.0.1", int(process.stdout.readline())

        def connect(data=b""):
            connection = stack.enter_context(closing(socket.create_connection(address, 30)))
            connection.sendall(data)
            return connection

        yield process.stdout, connect
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


def get(connection, path, method="GET", body=None):
    """Return status, headers and body of a request on a connection."""
    client = HTTPConnection("localhost")
    client.sock = connection
    client.request(method, path, body)
    response = client.getresponse()
    return response.status, response.headers, response.read()


def drip(connection):
    for _ in range(9):
        connection.sendall(b"x")
        time.sleep(0.3)


def ends(connection):
    """Return True if the server closes a connection without a response."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("descriptors", [60, 1024])
def test_400_half_open_connections(descriptors):
    with server(descriptors=descriptors) as (_, connect):
        for _ in range(400):
            connect(HALF_OPEN)
        seconds = []
        for _ in range(3):
            start = time.monotonic()
            assert get(connect(), "/echo")[0] == 200
            seconds.append(time.monotonic() - start)
        # The machine may be busy.
        assert min(seconds) < 1


def test_requests_must_arrive_in_time():
    with server(patience=1.0) as (_, connect):
        half_open, body, dripping = connect(HALF_OPEN), connect(BODY), connect(BODY)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(dripping)
        kept = connect()
        assert ends(half_open)
        assert ends(body)
        # Each request has its own time; computing takes as long as it takes.
        for _ in range(2):
            assert get(kept, "/slow")[2] == b"slow"
            assert get(kept, "/echo", "POST", b"x" * 10**6)[2] == b"x" * 10**6


def test_clients_must_read():
    request = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server(patience=0.5) as (_, connect):
        stalled, steady = connect(request), connect(request)
        received = 0
        for _ in range(20):
            received += len(steady.recv(1 << 20))
            time.sleep(0.1)
        while received < 50 << 20:
            data = steady.recv(1 << 20)
            assert data
            received += len(data)
        received = 0
        while data := stalled.recv(1 << 20):
            received += len(data)
        assert received < 50 << 20


def test_connections_are_refused_if_all_are_in_use():
    with server(most=2) as (output, connect):
        request = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
        busy = [connect(request) for _ in range(2)]
        assert [output.readline() for _ in busy] == ["slow\n"] * 2
        answer = connect().recv(1000)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in answer
        for connection in busy:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert get(connect(), "/echo")[0] == 200
