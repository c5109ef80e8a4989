"""Runs in processes of their own: pinned to some cores, and such as can be killed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cqels_opt.errors import RunError

SPAWN = multiprocessing.get_context("spawn")


def empty_folder(path: Path) -> Path:
    """A new folder in place of what was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def start(function: Callable[..., None], *arguments: Any, cores: int | None = None) -> BaseProcess:
    """Begins a function of a module in a new process, which leads a group of its own; ``cores`` are all that it may use."""
    process = SPAWN.Process(target=_run, args=(function, arguments, cores), daemon=True)  # ends with this one
    process.start()
    return process


def wait(process: BaseProcess) -> None:
    """Waits for the end; a failure there is one here."""
    process.join()
    if process.exitcode:
        raise RunError(f"a run in a process of its own failed (exit code {process.exitcode})")


def kill(process: BaseProcess) -> None:
    """``kill -9`` of the process and of all that it has started: Spark's JVM, and so the JVM's Python workers."""
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)
    process.join()


def _run(function: Callable[..., None], arguments: tuple[Any, ...], cores: int | None) -> None:
    os.setsid()
    if cores is not None and sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    function(*arguments)
