"""Runs Pathway in an environment of its own, by the messages of cqels_opt/bench/contenders/typed_rows.py.

All streams are one connector, so that a micro-batch is one commit. The file of a query has a function ``answers(pathway, tables)``.
"""

from __future__ import annotations

import logging
import queue
import sys
from runpy import run_path
from threading import Thread
from typing import Any

import pathway as pw
from pathway.internals.parse_graph import G

NULL = "\\N"
KEY = "key"
"""The name of the column ``id``, which Pathway reserves."""
TYPES: dict[str, type] = {"text": str, "integer": int, "double": float}
OUT = sys.stdout


class Input(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """Rows of all streams, in wide rows: the columns of other tables have default values."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: queue.Queue[list[dict[str, Any]] | None] = queue.Queue()

    def run(self) -> None:
        """One commit per micro-batch."""
        while (batch := self.batches.get()) is not None:
            for row in batch:
                self.next(**row)
            self.commit()


def main() -> None:
    """Reads messages until the input ends."""
    columns: dict[str, list[tuple[str, type]]] = {}
    static: dict[str, list[tuple[Any, ...]]] = {}
    source, batch, done, running = Input(), list[dict[str, Any]](), queue.Queue[int](), Thread()
    for line in sys.stdin:
        name, *values = line.rstrip("\n").split("\t")
        if name == "#table":
            described = [text.split(" ") for text in values[2:]]
            columns[values[0]] = [(KEY if column == "id" else column, TYPES[kind]) for column, kind in described]
            if values[1] == "static":
                static[values[0]] = []
        elif name == "#start":
            source, batch, done = Input(), [], queue.Queue()
            names, running = start(values[0], columns, static, source, done)
            say("\t".join(("#ready", *names)))
        elif name == "#stop":
            source.batches.put(None)
            running.join()
            G.clear()
            say("#stopped")
        elif name == "#end":
            batch.append({"table_": "#", "number_": int(values[0])})
            source.batches.put(batch)
            batch = []
            while done.get() < int(values[0]):
                pass
            say(f"#done\t{values[0]}")
        elif name in static:
            static[name].append(tuple(kind(value) for (_, kind), value in zip(columns[name], values)))
        else:
            row = {f"{name}_{column}": kind(value) for (column, kind), value in zip(columns[name], values) if value != NULL}
            batch.append({"table_": name, **row})


def say(message: str) -> None:
    """Writes a message after the answers before it."""
    OUT.write(message + "\n")
    OUT.flush()


def start(
    path: str,
    columns: dict[str, list[tuple[str, type]]],
    static: dict[str, list[tuple[Any, ...]]],
    source: Input,
    done: queue.Queue[int],
) -> tuple[list[str], Thread]:
    """Builds the dataflow and runs it in a thread; returns the names of the columns of its answers, and the thread.

    The end of a micro-batch is one more row of the output: a time at which the output does not change is not reported as ended.
    """
    wide: dict[str, Any] = {
        "table_": pw.column_definition(dtype=str),
        "number_": pw.column_definition(dtype=int, default_value=-1),
    }
    for name, kinds in columns.items():
        if name not in static:
            for column, kind in kinds:
                wide[f"{name}_{column}"] = pw.column_definition(dtype=kind, default_value=kind())
    rows = pw.io.python.read(source, schema=pw.schema_builder(wide), autocommit_duration_ms=None)
    tables = {}
    for name, kinds in columns.items():
        if name in static:
            schema = pw.schema_from_types(**dict(kinds))
            tables[name] = pw.debug.table_from_rows(schema, static[name])
        else:
            own = rows.filter(rows.table_ == name)
            tables[name] = own.select(**{column: own[f"{name}_{column}"] for column, _ in kinds})
    found = run_path(path)["answers"](pw, tables)
    names = found.column_names()
    marks = rows.filter(rows.table_ == "#")
    nothing = {name: kind() for name, kind in found.typehints().items()}
    ends = marks.select(**nothing, number_=marks.number_)
    found = found.with_columns(number_=-1)
    pw.universes.promise_are_pairwise_disjoint(found, ends)
    ended = [-1]

    def answer(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if not is_addition:
            raise AssertionError(f"an answer was withdrawn: {row}")
        if row["number_"] >= 0:
            ended[0] = row["number_"]
        else:
            OUT.write("\t".join(str(row[name]) for name in names) + "\n")

    pw.io.subscribe(found.concat(ends), answer, on_time_end=lambda time: done.put(ended[0]))
    running = Thread(target=pw.run, kwargs={"monitoring_level": pw.MonitoringLevel.NONE}, daemon=True)
    running.start()
    return list(names), running


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.stdout = sys.stderr
    main()
