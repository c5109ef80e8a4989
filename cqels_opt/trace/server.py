"""The page of a running job over HTTP, updated as micro-batches end, and its metrics for Prometheus.

``/`` is the page, ``/trace.json`` its queries, ``/trace.json?query=NAME`` the data of one, ``/events`` says when a batch has ended
(server-sent events), ``/metrics`` is for Prometheus. Nothing can be changed from there. On a loopback address only requests that name
one are answered, so that a page from elsewhere that points its name here cannot read the trace (DNS rebinding).
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

ALIVE = 15.0
"""Seconds after which a connection without news is told that it is still one."""
LINGERS = 1.5
"""Seconds for which the server outlives the job where somebody looks on."""
MOST_CONNECTIONS = 64
"""Open at a time. Each has a thread and a file descriptor, which the job needs as well."""
PATIENCE = 10.0
"""Seconds that the server waits for a client to send its request, or to read its answer."""
PAUSE = 1.0
"""Seconds between attempts to accept a connection while the process has no file descriptor left."""


@contextmanager
def shown(title: str, address: tuple[str, int] | None, earlier: Path | None = None) -> Iterator[LiveTrace | None]:
    """A trace that is served while the block runs, where an address is given; says on standard error where."""
    if address is None:
        yield None
        return
    trace = LiveTrace(title, earlier)
    with served(trace, *address) as url:
        print(f"page: {url}", file=sys.stderr, flush=True)
        yield trace


@contextmanager
def served(trace: LiveTrace, host: str, port: int) -> Iterator[str]:
    """Serves a trace while the block runs; gives the page's address. Port 0 is any that is free.

    Raises:
        InputError: the address cannot be had.
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
        looked_at = server.readers > 0
        trace.end()
        if looked_at:  # pages may fetch the last state
            threading.Event().wait(LINGERS)
        server.shutdown()
        server.server_close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
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
        """So many more wait for events, or fewer."""
        with self._counting:
            self.readers += more

    def asked(self, request: socket.socket) -> None:
        """A connection has sent its request: it is not closed to make room."""
        with self._counting:
            self._open[request] = True

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts a connection. Where that fails, the connection stays in the queue, so that trying at once would be a busy loop."""
        try:
            return super().get_request()
        except OSError:
            self._stopping.wait(PAUSE)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for a connection; the oldest one that has sent no request makes it."""
        with self._counting:
            if len(self._open) >= MOST_CONNECTIONS:
                idle = next((found for found, asked in self._open.items() if not asked), None)
                if idle is None:
                    return False
                del self._open[idle]
                with suppress(OSError):  # the client has left by itself
                    idle.shutdown(socket.SHUT_RDWR)  # its thread then reads the end, and closes it
            self._open[request] = False
            return True

    def close_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._counting:  # so that no closed socket is shut down to make room
            self._open.pop(request, None)
            super().close_request(request)

    def shutdown(self) -> None:
        """Stops to accept connections."""
        self._stopping.set()
        super().shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error; anything else is a defect, and its traceback is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "cqels-opt", ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answers a request."""
        self.server.asked(self.connection)
        try:
            asked, host = urlsplit(self.path), _host(self.headers.get("Host", ""))
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "The request's address or its Host header is malformed")
            return
        if self.server.private and not is_loopback(host):
            self.send_error(HTTPStatus.FORBIDDEN, "This address is for this machine alone")
        elif asked.path == "/":
            self._send("text/html; charset=utf-8", self.server.page)
        elif asked.path == "/trace.json":
            self._send_json(parse_qs(asked.query, keep_blank_values=True).get("query", [None])[0])
        elif asked.path == "/metrics":
            self._send(CONTENT_TYPE, self.server.trace.metrics.text())
        elif asked.path == "/events":
            self._tell()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is the job's."""

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

    def _tell(self) -> None:
        """An event at once and with every batch, until the job ends or the reader leaves."""
        self._head("text/event-stream")
        self.server.count(1)
        try:
            self._tell_all()
        finally:
            self.server.count(-1)

    def _tell_all(self) -> None:
        version = -1
        while True:
            state = self.server.trace.after(version, ALIVE)
            if state.version > version:
                self._say("batch", {"batch": state.batch})
                version = state.version
            else:
                self.wfile.write(b": still here\n\n")
            if state.ended:
                self._say("end", {})
                return

    def _say(self, event: str, data: dict[str, int | None]) -> None:
        self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()


def _host(header: str) -> str:
    """The name in a Host header, without port and brackets. ValueError where a bracket is not closed."""
    return urlsplit(f"//{header}").hostname or ""
