"""The page of a running job over HTTP, updated as micro-batches end, and its metrics for Prometheus.

``/`` is the page, ``/trace.json`` lists its queries, ``/trace.json?query=NAME`` is the data of one, ``/events`` sends an event
per finished batch (server-sent events), ``/metrics`` is for Prometheus. All access is read-only. On a loopback address the server
answers only requests whose Host header is a loopback name, so that a page of another site cannot read the trace (DNS rebinding).
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cqels_opt.errors import InputError
from cqels_opt.trace.live import LiveTrace
from cqels_opt.trace.metrics import CONTENT_TYPE
from cqels_opt.trace.page import live_page

KEEP_ALIVE = 15.0
"""Seconds between keep-alive comments on an event stream without events."""
LINGER = 1.5
"""Seconds for which the server outlives the job if viewers are connected."""
MOST_CONNECTIONS = 64
"""Maximum open connections. Each takes a thread and a file descriptor, which the job needs too."""
REQUEST_TIMEOUT = 10.0
"""Seconds that the server waits for a client to send its request, or to read its answer."""
PAUSE = 1.0
"""Seconds between attempts to accept a connection while the process has no free file descriptor."""


@contextmanager
def shown(title: str, address: tuple[str, int] | None, earlier: Path | None = None) -> Iterator[LiveTrace | None]:
    """Serves a trace while the block runs, if an address is given; prints the page's URL on standard error."""
    if address is None:
        yield None
        return
    trace = LiveTrace(title, earlier)
    with served(trace, *address) as url:
        print(f"page: {url}", file=sys.stderr, flush=True)
        yield trace


@contextmanager
def served(trace: LiveTrace, host: str, port: int) -> Iterator[str]:
    """Serves a trace while the block runs; yields the page's URL. Port 0 selects any free port.

    Raises:
        InputError: the address is not available.
    """
    try:
        server = _Server(trace, host, port)
    except OSError as error:
        raise InputError(
            f"--ui: {_authority(host, port)}: {error.strerror or error}; give another port, or 0 for any that is free"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="cqels-opt page", daemon=True)
    thread.start()
    try:
        yield f"http://{_authority(host, server.server_port)}/"
    finally:
        viewed = server.readers > 0
        trace.end()
        if viewed:  # pages may fetch the last state
            threading.Event().wait(LINGER)
        server.shutdown()
        server.server_close()


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, trace: LiveTrace, host: str, port: int) -> None:
        self.trace, self.private = trace, is_loopback(host)
        self.page = live_page(trace.title).encode()
        self.readers, self._counting = 0, threading.Lock()
        self._open: dict[socket.socket, bool] = {}  # whether its request has been read; in order of arrival
        self._stopping = threading.Event()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def count(self, more: int) -> None:
        """Adds to the number of viewers that wait for events."""
        with self._counting:
            self.readers += more

    def request_received(self, request: socket.socket) -> None:
        """Marks a connection that has sent its request, so that it is not closed to make room."""
        with self._counting:
            self._open[request] = True

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts a connection. If that fails it stays in the queue, so an immediate retry would be a busy loop."""
        try:
            return super().get_request()
        except OSError:
            self._stopping.wait(PAUSE)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a connection is accepted; if necessary, closes the oldest one that has sent no request."""
        with self._counting:
            if len(self._open) >= MOST_CONNECTIONS:
                idle = next((found for found, sent in self._open.items() if not sent), None)
                if idle is None:
                    return False
                del self._open[idle]
                with suppress(OSError):  # the client has already disconnected
                    idle.shutdown(socket.SHUT_RDWR)  # its thread then reads the end and closes it
            self._open[request] = False
            return True

    def close_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._counting:  # no closed socket may be shut down to make room
            self._open.pop(request, None)
            super().close_request(request)

    def shutdown(self) -> None:
        """Stops accepting connections."""
        self._stopping.set()
        super().shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect; prints the traceback of any other error, which is a defect."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "cqels-opt", ""
    timeout = REQUEST_TIMEOUT

    def do_GET(self) -> None:
        """Answers a request."""
        self.server.request_received(self.connection)
        try:
            target, host = urlsplit(self.path), _host(self.headers.get("Host", ""))
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "The request's address or its Host header is malformed")
            return
        if self.server.private and not is_loopback(host):
            self.send_error(HTTPStatus.FORBIDDEN, "This address is for this machine alone")
        elif target.path == "/":
            self._send("text/html; charset=utf-8", self.server.page)
        elif target.path == "/trace.json":
            self._send_json(parse_qs(target.query, keep_blank_values=True).get("query", [None])[0])
        elif target.path == "/metrics":
            self._send(CONTENT_TYPE, self.server.trace.metrics.text())
        elif target.path == "/events":
            self._send_events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: standard error belongs to the job."""

    def _send_json(self, query: str | None) -> None:
        try:
            self._send("application/json", self.server.trace.json(query))
        except KeyError:
            self._send("application/json", json.dumps({"error": f"there is no query {query!r}"}).encode(), HTTPStatus.NOT_FOUND)

    def _send(self, kind: str, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(kind, status, len(body))
        self.wfile.write(body)

    def _head(self, kind: str, status: HTTPStatus = HTTPStatus.OK, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send_events(self) -> None:
        """Sends an event at once and after each batch, until the job ends or the client disconnects."""
        self._head("text/event-stream")
        self.server.count(1)
        try:
            self._send_all_events()
        finally:
            self.server.count(-1)

    def _send_all_events(self) -> None:
        version = -1
        while True:
            state = self.server.trace.after(version, KEEP_ALIVE)
            if state.version > version:
                self._send_event("batch", {"batch": state.batch})
                version = state.version
            else:
                self.wfile.write(b": still here\n\n")
            if state.ended:
                self._send_event("end", {})
                return

    def _send_event(self, event: str, data: dict[str, int | None]) -> None:
        self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()


def _host(header: str) -> str:
    """The host name in a Host header, without port and brackets. ValueError for an unclosed bracket."""
    return urlsplit(f"//{header}").hostname or ""
