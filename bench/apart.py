"""Runs in separate processes: pinned to some cores, and killable."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cqels_opt.errors import RunError

SPAWN = multiprocessing.get_context("spawn")


def empty_folder(path: Path) -> Path:
    """A new, empty folder that replaces an existing one."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


@contextmanager
def scratch_folder(part: str = "bench") -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix=f"cqels-opt-{part}-") as folder:
        yield Path(folder)


def start(function: Callable[..., None], *arguments: Any, cores: int | None = None) -> BaseProcess:
    """Starts a module's function in a new process, the leader of its own process group; ``cores`` limits its processors."""
    process = SPAWN.Process(target=_run, args=(function, arguments, cores), daemon=True)  # ends with this process
    process.start()
    return process


def wait(process: BaseProcess) -> None:
    """Waits for the end; raises RunError if the process failed."""
    process.join()
    if process.exitcode:
        raise RunError(f"a run in a process of its own failed (exit code {process.exitcode})")


def kill(process: BaseProcess) -> None:
    """``kill -9`` of the process and of all processes that it started: Spark's JVM and thus its Python workers."""
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.join()


def _run(function: Callable[..., None], arguments: tuple[Any, ...], cores: int | None) -> None:
    os.setsid()
    if cores is not None and sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    function(*arguments)
