"""The sockets by which tasks connect to the driver: in its folder of temporary files, or in the network of a cluster.

In a network both sides prove that they know the secret of the job (HMAC-SHA256 of the other side's nonce), which Spark sends to its tasks
as a local property, before either reads what the other has pickled. What follows is not encrypted.
"""

from __future__ import annotations

import hmac
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from pyspark import SparkConf

from cqels_opt.spark.scratch import process_folder
from cqels_opt.spark.session import room_for_sockets

CONNECT_SECONDS: Final = 5.0
"""The longest time that a connection, and the proofs on it, may take."""
KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""The other side counts as lost when it has not answered for a minute, as if its machine had no power."""
NONCE: Final = 16
PROOF: Final = 32


class DriverSockets(Protocol):
    """Sockets of the driver, one per job."""

    def listen(self) -> tuple[socket.socket, str]:
        """A new socket, and its address for :func:`connected`."""

    def accept(self, listener: socket.socket) -> socket.socket | None:
        """The connection of a task; None if what has connected is none."""

    def close(self, listener: socket.socket) -> None:
        """The job has ended."""


class UnixSockets:
    """Unix domain sockets in a folder that only this user may enter, for tasks on the driver's machine."""

    def __init__(self) -> None:
        folder = process_folder()
        self._folder = tempfile.TemporaryDirectory(dir=str(folder) if room_for_sockets(folder) else "/tmp")
        self._made = 0

    def listen(self) -> tuple[socket.socket, str]:
        """See :class:`DriverSockets`."""
        self._made += 1
        path = str(Path(self._folder.name, str(self._made)))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        return listener, path

    def accept(self, listener: socket.socket) -> socket.socket:
        """See :class:`DriverSockets`."""
        return listener.accept()[0]

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
        self._secret = os.urandom(PROOF)

    def listen(self) -> tuple[socket.socket, str]:
        """See :class:`DriverSockets`."""
        family = socket.AF_INET6 if ":" in self._bind else socket.AF_INET
        listener = socket.create_server((self._bind, 0), family=family)
        self._secret = os.urandom(PROOF)
        return listener, f"{self._host} {listener.getsockname()[1]} {self._secret.hex()}"

    def accept(self, listener: socket.socket) -> socket.socket | None:
        """See :class:`DriverSockets`."""
        channel, _ = listener.accept()
        return channel if _is_proven(channel, self._secret, b"driver", b"task") else None

    def close(self, listener: socket.socket) -> None:
        """See :class:`DriverSockets`."""
        listener.close()


def connected(address: str) -> socket.socket | None:
    """A connection to the driver; None if it has closed the socket, or cannot be reached."""
    with suppress(OSError):
        if address.startswith("/"):
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(address)
            except OSError:
                channel.close()
                raise
            return channel
        host, port, secret = address.split(" ")
        channel = socket.create_connection((host, int(port)), CONNECT_SECONDS)
        return channel if _is_proven(channel, bytes.fromhex(secret), b"task", b"driver") else None
    return None


def _is_proven(channel: socket.socket, secret: bytes, mine: bytes, other: bytes) -> bool:
    """Whether the other side knows the secret; a connection on which it does not prove this is closed."""
    try:
        channel.settimeout(CONNECT_SECONDS)
        nonce = os.urandom(NONCE)
        channel.sendall(nonce)
        channel.sendall(hmac.digest(secret, mine + _received(channel, NONCE), "sha256"))
        proven = hmac.compare_digest(_received(channel, PROOF), hmac.digest(secret, other + nonce, "sha256"))
        channel.settimeout(None)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                channel.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    except OSError:
        proven = False
    if not proven:
        channel.close()
    return proven


def _received(channel: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := channel.recv(size - len(found))):
            raise ConnectionError
        found += more
    return found
