"""Moves messages from a source to a folder: writes them in batches, then acknowledges them (at-least-once delivery)."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cqels_opt.errors import RunError
from cqels_opt.gateway.folder import LiveFolder
from cqels_opt.gateway.sources import Received, Source

MOST_BUFFERED = 10_000
"""Maximum buffered messages, and messages per file; further messages wait at the source."""


@dataclass(slots=True)
class GatewayCounts:
    """The counts of a gateway so far."""

    messages: int = 0
    elements: int = 0
    files: int = 0
    refused: int = 0


def gateway(
    source: Source,
    folder: LiveFolder,
    stop: threading.Event,
    every: float,
    on_write: Callable[[GatewayCounts], None] | None = None,
) -> GatewayCounts:
    """Moves messages until ``stop`` is set or the source ends, then writes the rest. ``every``: batch interval in seconds."""
    waiting: queue.Queue[Received] = queue.Queue(MOST_BUFFERED)
    counts = GatewayCounts()
    failed: list[BaseException] = []
    ended = threading.Event()

    def put(message: Received) -> None:
        while not stop.is_set():
            try:
                return waiting.put(message, timeout=0.5)
            except queue.Full:
                continue

    def read() -> None:
        try:
            source.read(put, folder.position, stop)
        except BaseException as error:  # noqa: BLE001 - re-raised in the waiting thread
            failed.append(error)
        finally:
            ended.set()

    reader = threading.Thread(target=read, name="gateway", daemon=True)
    reader.start()
    try:
        while True:
            last = ended.is_set() or stop.is_set()
            if batch := _next_batch(waiting, 0.0 if last else every, stop):
                positions = [message.position for message in batch if message.position]
                elements, refused = folder.write(
                    [message.value for message in batch],
                    [message.time for message in batch],
                    positions[-1] if positions else None,
                )
                for message in batch:
                    message.done()
                counts.messages += len(batch)
                counts.elements += elements
                counts.files += elements > 0
                counts.refused += refused
                if on_write:
                    on_write(counts)
            elif last:
                break
    finally:
        stop.set()
        source.close()
        reader.join(timeout=1)  # a reader that waits for an answer of a server ends later
    if failed:
        raise failed[0] if isinstance(failed[0], Exception) else RunError(f"the gateway failed: {failed[0]}")
    return counts


def _next_batch(waiting: queue.Queue[Received], seconds: float, stop: threading.Event) -> list[Received]:
    """The messages that arrive within some seconds of the first one."""
    found: list[Received] = []
    end: float | None = None if seconds else time.monotonic()
    while len(found) < MOST_BUFFERED:
        left = 0.2 if end is None else end - time.monotonic()
        try:
            found.append(waiting.get(timeout=min(left, 0.2)) if left > 0 else waiting.get_nowait())
        except queue.Empty:
            if stop.is_set() or end is None or left <= 0:
                break
            continue
        end = end if end is not None else time.monotonic() + seconds
    return found
