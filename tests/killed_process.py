"""A process that is killed at some change of a file, and the store that a killed process leaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from cqels_opt.errors import StoreError
from cqels_opt.lod.check import check
from cqels_opt.lod.open_store import open_store

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "open")


def died(target: Path, fatal: int, work: Callable[[], object]) -> bool:
    """Works in a process that is killed at its n-th change of a file or folder of the target; False where it has fewer."""
    child = os.fork()
    if child == 0:
        changes = 0

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal changes
            if event not in CHANGES or (event == "open" and "r" in str(arguments[1])) or str(target) not in str(arguments[0]):
                return
            changes += 1
            if changes == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(watch)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def triples(target: Path) -> int | None:
    """The triples of the store, whose files are whole; None where there is no store."""
    try:
        store = open_store(target)
    except StoreError:
        return None
    assert check(target) == []
    return store.triples
