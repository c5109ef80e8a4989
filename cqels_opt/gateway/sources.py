"""The sources of a gateway: MQTT, WebSocket and Server-Sent Events, each through a library that implements the protocol."""

from __future__ import annotations

import hashlib
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from cqels_opt.errors import InputError, option

if TYPE_CHECKING:
    from paho.mqtt.client import Client

SCHEMES = ("mqtt", "mqtts", "ws", "wss", "http", "https")
EVENTS = "text/event-stream"
BYTES = "iso-8859-1"
"""The encoding with a character per byte: what is no UTF-8 is refused with its reason, not replaced."""
MAX_RETRY_DELAY = 30.0
"""Maximum seconds between attempts to connect."""

Put = Callable[["Received"], None]


def _ignore() -> None:
    """The default acknowledgement: none."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message and its arrival time (ms). ``done`` acknowledges it after the write; ``position`` is where to resume after it."""

    value: bytes
    time: int
    done: Callable[[], None] = _ignore
    position: str | None = None


class Source(Protocol):
    """A source of messages."""

    def read(self, put: Put, position: str | None, stop: threading.Event) -> None:
        """Passes messages to ``put`` until ``stop`` is set, with reconnects; ``position`` is where an earlier run ended."""

    def close(self) -> None:
        """Disconnects, once all messages are written."""


def make_source(url: str, *, client: str = "", send: str | None = None) -> Source:
    """The source of a URL; ``InputError`` if the URL is invalid or the library is not installed.

    ``client`` is the client id at an MQTT broker, which queues messages for it while it is offline; ``send`` is the first message
    to a WebSocket server.
    """
    what = f"{url!r} is no source of a gateway: write {', '.join(f'{s}://' for s in SCHEMES)}, then host:port/…"
    try:
        parts = urlsplit(url)
        known = parts.scheme in SCHEMES and parts.hostname and parts.port != 0 and parts.hostname.encode("idna")
    except ValueError as error:
        raise InputError(f"{what} ({error})") from error
    if not known:
        raise InputError(what)
    if client and parts.scheme not in ("mqtt", "mqtts"):
        raise InputError(f"{option('client=', '--client')}: it is an id at a broker of MQTT; leave it out")
    if send is not None and parts.scheme not in ("ws", "wss"):
        raise InputError(f"{option('send=', '--send')}: it is a message to a WebSocket server; leave it out")
    try:
        if parts.scheme in ("mqtt", "mqtts"):
            return Mqtt(url, client or f"cqels-opt-{hashlib.sha256(url.encode()).hexdigest()[:12]}")
        return Socket(url, send) if parts.scheme in ("ws", "wss") else Events(url)
    except ModuleNotFoundError as error:
        raise InputError(f"{parts.scheme}:// needs the library {error.name}: pip install 'cqels-opt[gateways]'") from error


def _log(message: str) -> None:
    print(f"gateway: {message}", file=sys.stderr, flush=True)


def _now() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class _Backoff:
    """Exponential backoff: doubles the delay until a message comes. A failure before the first connection is raised."""

    seconds: float = 0.5
    ever: bool = False

    def connected(self, url: str) -> None:
        self.ever = True
        _log(f"connected to {_bare(url)}")

    def succeeded(self) -> None:
        self.seconds = 0.5

    def failed(self, url: str, error: Exception, stop: threading.Event) -> None:
        why = f"{_bare(url)}: {_bare(url, str(error)) or type(error).__name__}"
        if not self.ever:
            raise InputError(why) from error
        _log(f"{why}; trying again in {self.seconds:g} s")
        stop.wait(self.seconds)
        self.seconds = min(MAX_RETRY_DELAY, 2 * self.seconds)


# ------------------------------------------------------------------ MQTT
@dataclass(slots=True)
class Mqtt:
    """``mqtt://[user:password@]host[:port]/filter``, QoS 1, persistent session: acknowledged after the write (at least once)."""

    url: str
    client: str
    _session: Client | None = None
    _connection: int = 0  # messages of an earlier connection are redelivered, and acknowledged then

    def __post_init__(self) -> None:
        import paho.mqtt.client  # noqa: F401 - fails at once if not installed

        if not self._topic:
            raise InputError(f"{self.url}: it names no topic: write mqtt://host:port/topic, with + and # as in any filter")

    @property
    def _topic(self) -> str:
        """The part after the host; ``#`` is kept."""
        return unquote(self.url.split("://", 1)[1].partition("/")[2])

    def read(self, put: Put, position: str | None, stop: threading.Event) -> None:
        """See :class:`Source`. The broker stores the position."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        parts = urlsplit(self.url)
        session = self._session = Client(CallbackAPIVersion.VERSION2, self.client, clean_session=False, manual_ack=True)
        if parts.username:
            session.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        if parts.scheme == "mqtts":
            session.tls_set()
        session.reconnect_delay_set(1, int(MAX_RETRY_DELAY))
        wrong: queue.SimpleQueue[InputError] = queue.SimpleQueue()

        def connected(client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            if reason.is_failure:
                why = f"{_bare(self.url)}: the broker refuses the connection: {reason}"
                if self._connection:  # it has accepted one: it may be starting
                    _log(f"{why}; trying again")
                else:
                    wrong.put(InputError(why))
                return
            try:
                client.subscribe(self._topic, qos=1)
            except ValueError as error:
                wrong.put(InputError(f"{_bare(self.url)}: {self._topic!r} is no filter of topics: {error}"))
                return
            self._connection += 1
            _log(f"connected to {_bare(self.url)}")

        def disconnected(_client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            if reason.is_failure and self._connection:
                _log(f"{_bare(self.url)}: connection lost ({reason}); trying again")
            elif reason.is_failure:
                wrong.put(InputError(f"{_bare(self.url)}: the connection ends before the broker accepts it ({reason})"))

        def received(client: Client, _data: Any, message: Any) -> None:
            connection = self._connection

            def done() -> None:
                if connection == self._connection:
                    client.ack(message.mid, message.qos)

            put(Received(message.payload, _now(), done))

        def subscribed(_client: Client, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
            if any(reason.is_failure for reason in reasons):
                wrong.put(InputError(f"{_bare(self.url)}: the broker refuses the topic {self._topic!r}"))

        session.on_connect, session.on_disconnect, session.on_message, session.on_subscribe = (
            connected,
            disconnected,
            received,
            subscribed,
        )
        try:
            session.connect(parts.hostname or "", parts.port or (8883 if parts.scheme == "mqtts" else 1883))
        except (OSError, ValueError) as error:
            raise InputError(f"{_bare(self.url)}: {error}") from error
        session.loop_start()
        while not stop.is_set():
            try:
                raise wrong.get(timeout=0.2)
            except queue.Empty:
                continue

    def close(self) -> None:
        """See :class:`Source`."""
        if self._session is not None:
            self._session.disconnect()
            self._session.loop_stop()


def _bare(url: str, text: str | None = None) -> str:
    """A URL, or a text that may name it, without its user and password."""
    user = urlsplit(url).netloc.rpartition("@")[0]
    text = url if text is None else text
    return text.replace(f"{user}@", "") if user else text


# ------------------------------------------------------------------ WebSocket
@dataclass(slots=True)
class Socket:
    """``ws://host:port/path``. Messages sent while the gateway is disconnected are lost: the protocol has no replay."""

    url: str
    send: str | None = None
    _backoff: _Backoff = field(default_factory=_Backoff)

    def __post_init__(self) -> None:
        import websockets.sync.client  # noqa: F401 - fails at once if not installed

    def read(self, put: Put, position: str | None, stop: threading.Event) -> None:
        """See :class:`Source`."""
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        while not stop.is_set():
            try:
                with connect(self.url, max_size=1 << 26) as connection:
                    self._backoff.connected(self.url)
                    if self.send is not None:
                        connection.send(self.send)
                    while not stop.is_set():
                        try:
                            message = connection.recv(timeout=0.2)
                        except TimeoutError:
                            continue
                        self._backoff.succeeded()
                        put(Received(message.encode() if isinstance(message, str) else message, _now()))
            except (OSError, WebSocketException) as error:
                self._backoff.failed(self.url, error, stop)

    def close(self) -> None:
        """See :class:`Source`."""


# ------------------------------------------------------------------ Server-Sent Events
@dataclass(slots=True)
class Events:
    """``http://host:port/path``: resumes after the last written event if the server assigns ids and stores events."""

    url: str
    _backoff: _Backoff = field(default_factory=_Backoff)
    _socket: socket.socket | None = None  # of the stream that is read

    def __post_init__(self) -> None:
        import httpx_sse  # noqa: F401 - fails at once if not installed

    def read(self, put: Put, position: str | None, stop: threading.Event) -> None:
        """See :class:`Source`. The position is the id of an event."""
        import httpx
        from httpx_sse import SSEError, connect_sse

        last = position
        with httpx.Client(timeout=httpx.Timeout(10, read=None)) as client:
            while not stop.is_set():
                try:
                    headers: dict[str, Any] = {"Last-Event-ID": last.encode(errors="surrogateescape")} if last else {}
                    with connect_sse(client, "GET", self.url, headers=headers) as events:
                        events.response.raise_for_status()
                        kind = events.response.headers.get("content-type", "").partition(";")[0].strip().lower()
                        if kind != EVENTS:
                            raise SSEError(f"the server sends {kind or 'no type of content'}, not {EVENTS}")
                        self._backoff.connected(self.url)
                        self._socket = events.response.extensions["network_stream"].get_extra_info("socket")
                        events.response.encoding = BYTES  # event streams are of UTF-8, whatever the server says
                        for event in events.iter_sse():
                            last = event.id.encode(BYTES).decode(errors="surrogateescape") or last
                            if not event.data:  # a comment, or an id alone: by the standard no event
                                continue
                            self._backoff.succeeded()
                            put(Received(event.data.encode(BYTES), _now(), position=last))
                            if stop.is_set():
                                return
                    raise httpx.RemoteProtocolError("the server has ended the stream")
                except (httpx.HTTPError, SSEError) as error:
                    if not stop.is_set():
                        self._backoff.failed(self.url, error, stop)

    def close(self) -> None:
        """Ends the connection, from which the reader may wait for an event."""
        if self._socket is not None:
            with suppress(OSError):  # the server has ended it
                self._socket.shutdown(socket.SHUT_RDWR)
