"""The sockets by which tasks connect to the driver: in its folder of temporary files, or in the network of a cluster.

In a network both sides prove that they know a secret (HMAC-SHA256 of a nonce of the job and one of the other side) before either reads what
the other has pickled. The secret is part of the function that Spark sends to its executors, and in no property, for these are written to
Spark's event log. What follows is not encrypted.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
import tempfile
import time
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from pyspark import SparkConf

from cqels_opt.spark.scratch import process_folder
from cqels_opt.spark.session import room_for_sockets

Task: TypeAlias = tuple[socket.socket, int]
"""The connection of a task, and its number."""

CONNECT_SECONDS: Final = 5.0
"""The longest time in which a task must reach the driver's machine."""
ACCEPT_SECONDS: Final = 5.0
"""The longest time in which a task must prove itself after the driver has accepted its connection."""
WAIT_SECONDS: Final = 600.0
"""The longest time in which the driver must accept a connection: it does so between the stages of a batch."""
KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""The other side counts as lost when it has not answered for a minute, as if its machine had no power."""
BACKLOG: Final = 1024
NONCE: Final = 16
PROOF: Final = 32
_NUMBER: Final = struct.Struct("!i")


class DriverSockets(Protocol):
    """Sockets of the driver, one per job. Tasks need the ``secret``."""

    secret: bytes

    def listen(self) -> tuple[socket.socket, str]:
        """A new socket, and its address for :func:`connected`."""

    def accept(self, listener: socket.socket) -> Task | None:
        """The task that has connected; None if it is none."""

    def close(self, listener: socket.socket) -> None:
        """The job has ended."""


class UnixSockets:
    """Unix domain sockets in a folder that only this user may enter, for tasks on the driver's machine."""

    def __init__(self) -> None:
        folder = process_folder()
        self._folder = tempfile.TemporaryDirectory(dir=str(folder) if room_for_sockets(folder) else "/tmp")
        self._made = 0
        self.secret = b""

    def listen(self) -> tuple[socket.socket, str]:
        """See :class:`DriverSockets`."""
        self._made += 1
        path = str(Path(self._folder.name, str(self._made)))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        return listener, path

    def accept(self, listener: socket.socket) -> Task | None:
        """See :class:`DriverSockets`."""
        channel, _ = listener.accept()
        try:
            return channel, _NUMBER.unpack(received(channel, _NUMBER.size))[0]
        except ConnectionError:
            channel.close()
            return None

    def close(self, listener: socket.socket) -> None:
        """See :class:`DriverSockets`."""
        path = listener.getsockname()
        listener.close()
        Path(path).unlink(missing_ok=True)


class NetworkSockets:
    """TCP sockets at the address at which Spark's executors reach the driver."""

    def __init__(self, conf: SparkConf) -> None:
        self._host = conf.get("spark.driver.host") or "localhost"
        self._bind = conf.get("spark.driver.bindAddress") or self._host
        self._job = b""
        self.secret = os.urandom(PROOF)

    def listen(self) -> tuple[socket.socket, str]:
        """See :class:`DriverSockets`."""
        family = socket.AF_INET6 if ":" in self._bind else socket.AF_INET
        listener = socket.create_server((self._bind, 0), family=family, backlog=BACKLOG)
        self._job = os.urandom(NONCE)  # a late task of an earlier job proves itself for that one
        return listener, f"{self._host} {listener.getsockname()[1]} {self._job.hex()}"

    def accept(self, listener: socket.socket) -> Task | None:
        """See :class:`DriverSockets`."""
        try:
            channel, _ = listener.accept()
        except ConnectionAbortedError:
            return None
        nonce, until = os.urandom(NONCE), time.monotonic() + ACCEPT_SECONDS
        try:
            channel.settimeout(ACCEPT_SECONDS)
            channel.sendall(nonce)
            theirs, number = received(channel, NONCE, until), received(channel, _NUMBER.size, until)
            _check(received(channel, PROOF, until), _proof(self.secret, b"task", self._job, nonce, number))
            channel.sendall(_proof(self.secret, b"driver", self._job, theirs, number))
            _prepare(channel)
        except OSError:
            channel.close()
            return None
        return channel, _NUMBER.unpack(number)[0]

    def close(self, listener: socket.socket) -> None:
        """See :class:`DriverSockets`."""
        listener.close()


def connected(address: str, secret: bytes, number: int) -> socket.socket | None:
    """The connection of a task to the driver; None if it has closed the socket, or its machine cannot be reached."""
    packed = _NUMBER.pack(number)
    if address.startswith("/"):
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(address)
            channel.sendall(packed)
        except (FileNotFoundError, ConnectionError):
            channel.close()
            return None
        return channel
    return _through_network(address, secret, packed)


def _through_network(address: str, secret: bytes, number: bytes) -> socket.socket | None:
    host, port, job = address.split(" ")
    try:
        channel = socket.create_connection((host, int(port)), CONNECT_SECONDS)
    except OSError:
        return None
    try:
        channel.settimeout(WAIT_SECONDS)
        nonce, theirs = os.urandom(NONCE), received(channel, NONCE)
        channel.sendall(nonce + number + _proof(secret, b"task", bytes.fromhex(job), theirs, number))
        _check(received(channel, PROOF), _proof(secret, b"driver", bytes.fromhex(job), nonce, number))
        _prepare(channel)
    except OSError:
        channel.close()
        return None
    return channel


def _proof(secret: bytes, role: bytes, job: bytes, nonce: bytes | bytearray, number: bytes | bytearray) -> bytes:
    return hmac.digest(secret, role + job + nonce + number, "sha256")


def _check(given: bytearray, expected: bytes) -> None:
    """A ConnectionError if the other side does not know the secret."""
    if not hmac.compare_digest(given, expected):
        raise ConnectionError


def _prepare(channel: socket.socket) -> None:
    """A connection that lasts: without time-outs, but for a lost machine, and without delays of short messages."""
    channel.settimeout(None)
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            channel.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def received(channel: socket.socket, size: int, until: float | None = None) -> bytearray:
    """That many bytes of the other side; a ConnectionError if it ends before, a TimeoutError after ``until`` (monotonic)."""
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        if until is not None:
            channel.settimeout(max(0.001, until - time.monotonic()))
        if not (got := channel.recv_into(rest)):
            raise ConnectionError
        rest = rest[got:]
    return found
