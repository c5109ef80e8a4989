"""Starts a Python worker that has imported what tasks import, while the driver still prepares the first batch."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.tasks import drained, freeze_modules, slots

_MODULES = ("cqels_opt.runtime.ingest", "cqels_opt.runtime.evaluate", "cqels_opt.spark.batch_tasks", "cqels_opt.runtime.chunks")
_starting: list[threading.Thread] = []


def warm_up(session: SparkSession) -> None:
    """Starts a job of one task, which imports. If it fails, or the session is stopped meanwhile, the first batch imports."""
    thread = threading.Thread(target=_run, args=(session,), name="cqels-opt worker", daemon=True)
    _starting.append(thread)
    thread.start()


def await_worker() -> None:
    """Waits for a worker that is starting: a task would start another one, which imports the same at the same time."""
    while _starting:
        _starting.pop().join()


def _run(session: SparkSession) -> None:
    with suppress(Py4JError, PySparkException, OSError, EOFError):
        context = session.sparkContext
        try:
            with described(context, "start a Python worker"):
                slots(context, 1).mapPartitions(_imported).collect()
        except AttributeError:
            if context._jsc is not None:  # a context that has been stopped has no object in the JVM
                raise


def _imported(rows: Iterable[int]) -> Iterator[int]:
    drained(rows)
    gc.disable()  # modules are never garbage
    try:
        for name in _MODULES:
            import_module(name)
        freeze_modules()
    finally:
        gc.enable()
    return iter(())
