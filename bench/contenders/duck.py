"""Re-evaluation by DuckDB: the query as SQL (`Task.sql`), over all elements of the window, once per micro-batch.

The folder of the SQL has one file per query, and ``views.sql``: views over the tables ``triples(s, p, o, g)`` of the static data,
``now_elements`` and ``recent_elements(stream, s, p, o, g, t)``, with terms in N-Triples syntax. ``recent_elements`` has all elements
that a window may still contain. A query returns the rows that are new in this micro-batch: ``time`` and one column per variable.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import pyarrow as pa

from cqels_opt.bench.contenders import Answer, Contender, Done, StoppedError, Task, UnsupportedError, elements, limit
from cqels_opt.bench.contenders.duckdb_connection import connected
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import Failures, StaticSource, read_all

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VIEWS = "views.sql"


def run(task: Task, folder: Path) -> Iterator[Done | None]:
    """Load the static triples and declare the views; each micro-batch is then an insertion, a deletion and the query.

    The option ``duckdb.seconds`` is the most that one evaluation may take, in wall-clock time.
    """
    text, most = sql(task), limit(task.options, "duckdb.seconds")
    reach = max((window.width or 1 for window in parse(task.text).windows), default=0)
    with connected(folder) as connection:
        from duckdb import InterruptException

        connection.execute("CREATE TABLE triples(s VARCHAR, p VARCHAR, o VARCHAR, g VARCHAR)")
        for block in read_all(
            [*(StaticSource(p) for p in task.static), *(StaticSource(p, g) for g, p in task.graphs.items())], Failures(False)
        ):
            rows = pa.table({"s": block.s, "p": block.p, "o": block.o, "g": block.g}, schema=_TRIPLES)
            connection.register("block", rows)
            connection.execute("INSERT INTO triples SELECT * FROM block")
        for table in ("now_elements", "recent_elements"):
            connection.execute(f"CREATE TABLE {table}(stream INTEGER, s VARCHAR, p VARCHAR, o VARCHAR, g VARCHAR, t BIGINT)")
        connection.execute((_folder(task) / VIEWS).read_text(encoding="utf-8"))
        for number, chunk in enumerate(task.chunks):
            yield None
            connection.register("chunk", new := elements(chunk))
            connection.execute("DELETE FROM now_elements; INSERT INTO now_elements SELECT * FROM chunk")
            connection.execute("INSERT INTO recent_elements SELECT * FROM chunk")
            connection.execute(f"DELETE FROM recent_elements WHERE t <= (SELECT min(t) FROM now_elements) - {reach}")
            began, found = time.perf_counter(), None
            with _at_most(connection, most), suppress(InterruptException):
                found = connection.execute(text).to_arrow_table()
            if found is None or time.perf_counter() - began > most:  # a query that ends at once can miss its interruption
                raise StoppedError(number, len(task.chunks), f"{most:g} s", int(new["t"].to_numpy().min()) - 1)
            yield Done(_answers(found))


@contextmanager
def _at_most(connection: DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupts the query that runs after some seconds."""
    timer = Timer(seconds, connection.interrupt)
    if seconds < math.inf:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


_TRIPLES = pa.schema([(name, pa.string()) for name in "spog"])


def _folder(task: Task) -> Path:
    if task.sql is None or not (task.sql / VIEWS).is_file():
        raise UnsupportedError(f"the scenario has no folder of SQL with a {VIEWS}")
    return task.sql


def sql(task: Task) -> str:
    """The query's SQL."""
    file = _folder(task) / f"{task.query.lower()}.sql"
    if not file.is_file():
        raise UnsupportedError(f"there is no {file.name} in {file.parent}")
    return file.read_text(encoding="utf-8")


def _answers(found: pa.Table) -> Iterator[Answer]:
    for row in found.to_pylist():
        yield row.pop("time"), row


CONTENDERS = (Contender("duckdb", "the query as SQL, re-evaluated by DuckDB with every micro-batch", run),)
