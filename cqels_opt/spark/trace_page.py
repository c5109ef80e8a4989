"""The trace's page within Spark's UI, at a path of its own, to which the descriptions of jobs link.

The UI forwards requests for that path to a server in this process, which makes the page when somebody asks for it
(:mod:`cqels_opt.trace.page_on_request`). So the page has the UI's address, access control and filters, and Python is not called from the
JVM. The servlets are in another package in older versions of Spark; a version without them has no link.
"""

from __future__ import annotations

import secrets
import threading
import warnings
import weakref
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from cqels_opt.errors import EngineWarning, first_line

if TYPE_CHECKING:
    from cqels_opt.trace.page_on_request import PageServer

PACKAGES = ("org.sparkproject.jetty.ee10", "org.sparkproject.jetty")
"""Where versions of Spark have the servlets of Jetty."""
FORWARDING = {"maxThreads": "8", "timeout": "120000", "idleTimeout": "120000"}
"""Of Jetty's proxy: its threads, which it starts with the first request, and milliseconds that the page of a long trace may take."""


class NoServletError(Exception):
    """This version of Spark has no servlet that forwards requests."""


class TracePage:
    """The page of a trace in Spark's UI at ``path``, until it is detached or its owner is deleted."""

    def __init__(self, ui: Any, jvm: Any, trace: Path, owner: object) -> None:
        from cqels_opt.trace.page_on_request import PageServer  # imports an HTTP server, which most runs do not need

        self.path = f"/cqels-opt/{secrets.token_hex(4)}/"
        self._ui, self._handler, self._attached, self._detaching = ui, None, True, threading.Lock()
        server = PageServer(trace.absolute())
        try:
            self._handler = _forwarding(jvm, self.path.removesuffix("/"), server.address)
            ui.attachHandler(self._handler)
        except BaseException:
            server.server_close()
            raise
        threading.Thread(target=self._serve, args=(server, weakref.ref(owner)), name="cqels-opt page", daemon=True).start()

    def _serve(self, server: PageServer, owner: weakref.ref[object]) -> None:
        with server:
            server.answer_while(lambda: self._attached and owner() is not None)
        self.detach()

    def detach(self) -> None:
        """Removes the page from the UI."""
        with self._detaching:
            attached, self._attached = self._attached, False
        if attached:
            with suppress(Py4JError):  # the session was stopped, and its UI with it
                self._ui.detachHandler(self._handler)


def attached(spark: SparkSession, trace: Path, owner: object) -> TracePage | None:
    """Attaches the page of a trace to the UI of a session; None if it has no UI in reach. A failure is a warning.

    Sessions have no UI in reach that disable it, and those whose driver is elsewhere (Spark Connect).
    """
    context = getattr(getattr(spark, "sparkContext", None), "_jsc", None)
    if context is None or (ui := context.sc().ui()).isEmpty():
        return None
    try:
        return TracePage(ui.get(), spark.sparkContext._jvm, trace, owner)
    except (Py4JError, OSError, NoServletError) as error:
        why = f"descriptions in Spark's UI do not link to the page of {trace}: {first_line(error)}"
        warnings.warn(why, EngineWarning, stacklevel=2)
        return None


def _forwarding(jvm: Any, path: str, address: str) -> Any:
    """A handler that forwards requests below ``path`` to an address."""
    for package in PACKAGES:
        context_handler = attrgetter(f"{package}.servlet.ServletContextHandler")(jvm)
        if isinstance(context_handler, JavaClass):  # otherwise py4j takes the name for that of a package
            handler = context_handler()
            handler.setContextPath(path)
            servlet = handler.addServlet(f"{package}.proxy.ProxyServlet$Transparent", "/*")
            for name, value in {**FORWARDING, "proxyTo": address}.items():
                servlet.setInitParameter(name, value)
            return handler
    raise NoServletError("this version of Spark has no servlet that forwards requests")


__all__ = ["TracePage", "attached"]
