"""The page of a growing trace file over HTTP on loopback, made when somebody asks for it: nothing runs per micro-batch.

All paths begin with a secret, so that only those who have the address can read the trace.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from cqels_opt.errors import CqelsOptError
from cqels_opt.trace.http_server import BoundedServer, Handler
from cqels_opt.trace.live import NEWEST
from cqels_opt.trace.page import SCRIPT, page_script, page_with_script_apart
from cqels_opt.trace.picture import Picture
from cqels_opt.trace.tail import Tail

LOOPBACK = "127.0.0.1"
CHECK_INTERVAL = 1.0
"""Seconds between checks whether the server is still needed."""


class PageOnRequest:
    """The page of a trace file as of each request. Each record is read once, so that a later request only reads what is new."""

    def __init__(self, trace: Path) -> None:
        self._title, self._tail = trace.name, Tail(trace)
        self._picture, self._reading = Picture(NEWEST), threading.Lock()

    def html(self) -> str:
        """The page. Raises a CqelsOptError if the file cannot be read, or is damaged."""
        with self._reading:
            more = True
            while more:
                records, restarted, more = self._tail.news()
                if restarted:
                    self._picture = Picture(NEWEST)
                self._picture.add(records)
            return page_with_script_apart(self._picture, self._title)


class PageServer(BoundedServer):
    """Serves the page at ``address`` + ``/``. Raises OSError if there is no free port."""

    def __init__(self, trace: Path) -> None:
        super().__init__(LOOPBACK, 0, _Handler)
        self.page, self.secret = PageOnRequest(trace), f"/{secrets.token_urlsafe(16)}"
        self.address = f"http://{LOOPBACK}:{self.server_port}{self.secret}"

    def answer_while(self, needed: Callable[[], bool]) -> None:
        """Answers requests as long as the server is needed, which is checked every :data:`CHECK_INTERVAL` seconds."""
        self.timeout = CHECK_INTERVAL
        while needed():
            self.handle_request()


class _Handler(Handler):
    server: PageServer

    def answer(self) -> None:
        """See :meth:`Handler.answer`."""
        if self.path == f"{self.server.secret}/":
            self._send_page()
        elif self.path == f"{self.server.secret}/{SCRIPT}":
            self.send("text/javascript; charset=utf-8", page_script().encode())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_page(self) -> None:
        try:
            self.send("text/html; charset=utf-8", self.server.page.html().encode())
        except CqelsOptError as error:
            self.send("text/plain; charset=utf-8", str(error).encode(), HTTPStatus.INTERNAL_SERVER_ERROR)
