"""Registration on Spark: static data are loaded, and queries are compiled, by executors where the data are large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cqels_opt.compiler.registration import Do
from cqels_opt.lod.load import LoadReport
from cqels_opt.lod.open_store import open_store
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.rdf.static import StaticSource
from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.load import load
from cqels_opt.spark.session import AnySession, session_of
from cqels_opt.spark.tasks import run_tasks, slots
from cqels_opt.spark.worker_python import explained
from cqels_opt.storage import disk

SMALL = 1 << 18
"""Triples of a store over which static sub-results are computed by the driver: a job, and a worker that starts, take longer."""


def loaded(spark: AnySession, sources: Sequence[StaticSource], target: Path, **options: Any) -> LoadReport:
    """:func:`~cqels_opt.spark.load.load`, with a sentence about the workers' Python if that is to blame for a failure."""
    with explained(spark):
        return load(spark, sources, target, **options)


def compiling(spark: AnySession, store: Path | str) -> Do:
    """Compiles programs in this process over a small store, else on an executor; the driver gets names and sizes only."""

    def do(work: Callable[[], CompiledProgram]) -> CompiledProgram:
        if open_store(store).triples <= SMALL:
            found = work()
            disk.sync_written(None)
            return found
        context = session_of(spark).sparkContext
        with explained(spark), described(context, "register: compile a query and its sub-results"):
            (program,) = run_tasks(slots(context, 1), lambda number: iter((work(),)))
        assert isinstance(program, CompiledProgram)
        return program

    return do
