"""The memory limit of a task: a result that would exceed it fails its query before the memory is allocated."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final

from cqels_opt.errors import LimitError

SHARE: Final = 4
"""By default a result takes at most 1/SHARE of the memory: operators copy rows, and other tasks run at the same time."""
_CONTROL_GROUP: Final = Path("/sys/fs/cgroup/memory.max")

_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def at_most(size: int | None) -> Iterator[None]:
    """Limits the bytes of each result inside the context; None: a share of the memory of the machine."""
    token = _most.set(size or of_the_machine() // SHARE)
    try:
        yield
    finally:
        _most.reset(token)


def check(rows: int, columns: int) -> None:
    """LimitError where some number of rows, with their intervals and multiplicities, exceeds the limit."""
    most = _most.get()
    if most is not None and (size := rows * (columns + 3) * 8) > most:
        raise LimitError(
            f"a result of at least {rows:,} rows takes {size:,} bytes of memory, more than the limit of {most:,}: "
            "join patterns by a common variable, or raise the limit of memory"
        )


@cache
def of_the_machine() -> int:
    """The bytes of memory that this process can use: the least of the machine, its container and its address space."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    if _CONTROL_GROUP.exists() and (text := _CONTROL_GROUP.read_text(encoding="ascii").strip()).isdecimal():
        found.append(int(text))
    if (soft := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        found.append(soft)
    return min(found)
