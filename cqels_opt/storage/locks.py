"""Advisory locks on files. The system releases the locks of a process that dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def taken_lock(file: IO[Any]) -> bool:
    """Whether the lock of an open file could be taken; it is held as long as the file is open."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Waits for the lock of a file, which is created if it is missing, and holds it until the block ends."""
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
