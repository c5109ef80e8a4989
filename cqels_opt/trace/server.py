"""The page of a running job over HTTP, updated as micro-batches end, and its metrics for Prometheus.

``/`` is the page, ``/trace.json`` lists its queries, ``/trace.json?query=NAME`` is the data of one, ``/events`` sends an event
per finished batch (server-sent events), ``/metrics`` is for Prometheus. All access is read-only. On a loopback address the server
answers only requests whose Host header is a loopback name, so that a page of another site cannot read the trace (DNS rebinding).
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cqels_opt.errors import InputError
from cqels_opt.trace.http_server import BoundedServer, Handler
from cqels_opt.trace.live import LiveTrace
from cqels_opt.trace.metrics import CONTENT_TYPE
from cqels_opt.trace.page import live_page

KEEP_ALIVE = 15.0
"""Seconds between keep-alive comments on an event stream without events."""
LINGER = 1.5
"""Seconds for which the server outlives the job if viewers are connected."""


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
        trace.end()
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


class _Server(BoundedServer):
    def __init__(self, trace: LiveTrace, host: str, port: int) -> None:
        self.trace, self.private = trace, is_loopback(host)
        self.page = live_page(trace.title).encode()
        self.readers, self._reading = 0, threading.Lock()
        super().__init__(host, port, _Handler)

    def count(self, more: int) -> None:
        """Adds to the number of viewers that wait for events."""
        with self._reading:
            self.readers += more


class _Handler(Handler):
    server: _Server

    def answer(self) -> None:
        """See :meth:`Handler.answer`."""
        try:
            target, host = urlsplit(self.path), _host(self.headers.get("Host", ""))
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "The request's address or its Host header is malformed")
            return
        if self.server.private and not is_loopback(host):
            self.send_error(HTTPStatus.FORBIDDEN, "This address is for this machine alone")
        elif target.path == "/":
            self.send("text/html; charset=utf-8", self.server.page)
        elif target.path == "/trace.json":
            self._send_json(parse_qs(target.query, keep_blank_values=True).get("query", [None])[0])
        elif target.path == "/metrics":
            self.send(CONTENT_TYPE, self.server.trace.metrics.text())
        elif target.path == "/events":
            self._send_events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_json(self, query: str | None) -> None:
        try:
            self.send("application/json", self.server.trace.json(query))
        except KeyError:
            self.send("application/json", json.dumps({"error": f"there is no query {query!r}"}).encode(), HTTPStatus.NOT_FOUND)

    def _send_events(self) -> None:
        """Sends an event at once and after each batch, until the job ends or the client disconnects."""
        self.send_head("text/event-stream")
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
