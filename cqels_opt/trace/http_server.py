"""The base of the trace's HTTP servers: read-only, with a bounded number of connections, and silent on standard error."""

from __future__ import annotations

import socket
import sys
import threading
from abc import abstractmethod
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST_CONNECTIONS = 64
"""Maximum open connections. Each takes a thread and a file descriptor, which the job needs too."""
REQUEST_TIMEOUT = 10.0
"""Seconds that the server waits for a client to send its request, or to read its answer."""
PAUSE = 1.0
"""Seconds between attempts to accept a connection while the process has no free file descriptor."""


class BoundedServer(ThreadingHTTPServer):
    """A server that closes the oldest connection without a request if there are too many."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, host: str, port: int, handler: type[Handler]) -> None:
        self._counting = threading.Lock()
        self._open: dict[socket.socket, bool] = {}  # whether its request has been read; in order of arrival
        self._stopping = threading.Event()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

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


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: BoundedServer
    server_version, sys_version = "cqels-opt", ""
    timeout = REQUEST_TIMEOUT

    def do_GET(self) -> None:
        """Marks the request as received, and answers it."""
        self.server.request_received(self.connection)
        self.answer()

    @abstractmethod
    def answer(self) -> None:
        """Answers the request for ``self.path``."""

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: standard error belongs to the job."""

    def send(self, kind: str, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Sends a whole answer. ``kind`` is its content type."""
        self.send_head(kind, status, len(body))
        self.wfile.write(body)

    def send_head(self, kind: str, status: HTTPStatus = HTTPStatus.OK, length: int | None = None) -> None:
        """Sends the headers of an answer; ``length`` is that of the body in bytes, if it is known."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
