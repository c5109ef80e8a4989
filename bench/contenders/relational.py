"""Relational stores with typed tables, asked with every micro-batch for what the new rows add: DuckDB, and SQLite with indexes.

The folder of the SQL (`Task.sql`) has four kinds of files, in SQL that both stores read:

- ``schema.sql`` makes the typed tables from ``triples(s, p, o, g)``, the static data, once;
- ``indexes.sql`` makes their indexes, in SQLite alone: DuckDB joins by hash tables and would only maintain them;
- ``ingest.sql`` turns ``now_elements(stream, s, p, o, g, t)``, the elements of the micro-batch, into typed rows and deletes expired ones;
- ``<query>.sql`` returns the answers that are new: ``time`` and one column per variable. It joins the new rows with the windows, once per
  window, and so does by hand what the delta rule does.

Terms are in N-Triples syntax. Nothing is written to disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cqels_opt.bench.answers import value_of
from cqels_opt.bench.contenders import Answer, Contender, Done, Task, UnsupportedError, elements
from cqels_opt.bench.contenders.duckdb_connection import connected
from cqels_opt.rdf.static import Failures, StaticSource, read_all

SCHEMA, INDEXES, INGEST = "schema.sql", "indexes.sql", "ingest.sql"
_TRIPLES = "CREATE TABLE triples(s VARCHAR, p VARCHAR, o VARCHAR, g VARCHAR)"
_ELEMENTS = "CREATE TABLE now_elements(stream INTEGER, s VARCHAR, p VARCHAR, o VARCHAR, g VARCHAR, t BIGINT)"


class Store(Protocol):
    """What the stores have in common. ``insert`` appends rows to a table, ``ask`` returns the names of the columns and the rows."""

    indexed: bool

    def script(self, text: str) -> None:
        """Executes statements that return nothing."""

    def insert(self, table: str, rows: pa.Table) -> None:
        """Appends rows."""

    def ask(self, text: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Executes a query."""

    def close(self) -> None:
        """Frees the store."""


class DuckDB:
    """DuckDB in memory; it scans Arrow tables without a copy."""

    indexed = False

    def __init__(self, folder: Path) -> None:
        self._connection = connected(folder)

    def script(self, text: str) -> None:
        """All statements in one call."""
        self._connection.execute(text)

    def insert(self, table: str, rows: pa.Table) -> None:
        """From Arrow."""
        self._connection.register("rows_to_insert", rows)
        self._connection.execute(f"INSERT INTO {table} SELECT * FROM rows_to_insert")

    def ask(self, text: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """All rows at once."""
        found = self._connection.execute(text)
        return [column[0] for column in found.description or ()], found.fetchall()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


class SQLite:
    """SQLite in memory, without a journal; its query planner sees no statistics of windows, as they change all the time."""

    indexed = True

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA temp_store = MEMORY")

    def script(self, text: str) -> None:
        """All statements in one transaction."""
        self._connection.executescript(f"BEGIN; {text}; COMMIT")

    def insert(self, table: str, rows: pa.Table) -> None:
        """In one transaction, by a prepared statement."""
        columns = [column.to_pylist() for column in rows.columns]
        self._connection.execute("BEGIN")
        self._connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", zip(*columns))
        self._connection.execute("COMMIT")

    def ask(self, text: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """All rows at once."""
        found = self._connection.execute(text)
        return [column[0] for column in found.description], found.fetchall()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def run(task: Task, folder: Path, store: type[DuckDB] | type[SQLite]) -> Iterator[Done | None]:
    """Load the static triples into typed tables; each micro-batch is then an insertion, the ingestion in SQL, and the query."""
    ingest, text = sql_of(task, INGEST), sql_of(task, f"{task.query.lower()}.sql")
    with closing(store(folder)) as connection:
        load_tables(connection, task)
        for chunk in task.chunks:
            yield None
            take_batch(connection, chunk, ingest)
            yield Done(_answers(*connection.ask(text)))


def load_tables(connection: Store, task: Task) -> None:
    """Makes the typed tables, those of static data with their rows."""
    schema = sql_of(task, SCHEMA)
    connection.script(f"{_TRIPLES}; {_ELEMENTS}")
    static = [*map(StaticSource, task.static), *(StaticSource(path, graph) for graph, path in task.graphs.items())]
    for block in read_all(static, Failures(False)):
        connection.insert("triples", pa.table({name: pa.array(getattr(block, name), pa.string()) for name in "spog"}))
    connection.script(schema)
    if connection.indexed:
        connection.script(sql_of(task, INDEXES))


def take_batch(connection: Store, chunk: Path, ingest: str) -> None:
    """Turns the elements of a micro-batch into typed rows."""
    connection.script("DELETE FROM now_elements")
    connection.insert("now_elements", elements(chunk))
    connection.script(ingest)


def sql_of(task: Task, name: str) -> str:
    """A file of the task's folder of SQL."""
    if task.sql is None or not (task.sql / SCHEMA).is_file():
        raise UnsupportedError(f"the scenario has no folder of SQL with a {SCHEMA}")
    file = task.sql / name
    if not file.is_file():
        raise UnsupportedError(f"there is no {name} for the relational stores")
    return file.read_text(encoding="utf-8")


def _answers(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[Answer]:
    for row in rows:
        values = dict(zip(names, row))
        time = values.pop("time")
        yield time, {name: value_of(value) if isinstance(value, str) else value for name, value in values.items()}


CONTENDERS = (
    Contender(
        "duckdb-delta", "DuckDB with typed tables, asked for what the new rows of a micro-batch add", partial(run, store=DuckDB)
    ),
    Contender(
        "sqlite",
        "SQLite with typed tables and indexes, asked for what the new rows of a micro-batch add",
        partial(run, store=SQLite),
    ),
)
