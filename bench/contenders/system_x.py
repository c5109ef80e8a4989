"""System X, the baseline of the CQELS report (§6): a stream engine and a triple store as black boxes.

At registration the store (pyoxigraph) answers the static part of the query, as SPARQL. The answers become tables of a relational
database (DuckDB), indexed on the join attributes. With every micro-batch the stream engine joins the contents of its windows in the
written order, without any information about the tables, looks the rows up in the tables through an LRU cache, and emits the difference
to the result before. This favours System X: joins are vectorised over numbers instead of terms, and windows are joined by the engine's
operators ("CQELS uses the same physical query operators as System X").
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from cqels_opt.bench.black_boxes.over_time import answers, new_rows, stepped
from cqels_opt.bench.black_boxes.relation import Cached, Table, Terms, bindings
from cqels_opt.bench.black_boxes.split import Parts, StaticPart, StreamPattern, split
from cqels_opt.bench.contenders import Contender, Done, Task, UnsupportedError, elements
from cqels_opt.bench.contenders.duckdb_connection import connected
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.errors import InputError
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import Ints, Rows, concat, empty
from cqels_opt.query.algebra import Query, Variable
from cqels_opt.query.parser import parse
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of

CAPACITY = 200_000
"""Keys per table that the cache keeps by default; the option ``system-x.cache`` of a scenario changes it."""


def run(task: Task, folder: Path) -> Iterator[Done | None]:
    """Register the query, then evaluate it again with every micro-batch."""
    query = parse(task.text)
    _check(query)
    parts, terms = split(query), Terms()
    capacity = task.options.get("system-x.cache", CAPACITY)
    if not isinstance(capacity, int) or capacity < 1:
        raise InputError(f"system-x.cache is a positive number of keys, not {capacity!r}")
    tables = [Cached(table, capacity) for table in _tables(task, folder, parts, terms)]
    contents = [empty(pattern.variables) for pattern in parts.streams]
    before, chunks = int(BEFORE_TIME), task.chunks
    for number, chunk in enumerate(chunks):
        yield None
        began = time.perf_counter()
        rows = elements(chunk)
        encoded = {name: terms.encode(rows[name]) for name in "spo"}
        t, stream = rows["t"].to_numpy().astype(np.int64), rows["stream"].to_numpy()
        after = before
        if len(t):
            before = max(before, int(t.max()) - (number < len(chunks) - 1))  # the last instant waits for the next batch
        for i, pattern in enumerate(parts.streams):
            mine = stream == task.replay.streams.index(pattern.window.stream)
            fresh = _matched(pattern, {name: column[mine] for name, column in encoded.items()}, t[mine], terms)
            contents[i] = concat([contents[i], fresh])
            contents[i] = contents[i].take(contents[i].end > after)
        read = time.perf_counter()
        joined = reduce(_joined, contents)
        for table in tables:
            joined = table.join(joined)
        whole = joined if parts.grouped is None else stepped(joined, parts.grouped, terms)
        found, times = new_rows(whole.only(parts.output.values()), after, before)
        ended = time.perf_counter()
        phases = {"ingest": 1000 * (read - began), "execute": 1000 * (ended - read)}
        yield Done(answers(found, times, parts.output, terms), phases=phases)


def _check(query: Query) -> None:
    meant = query_semantics(query)
    usual = meant.report.default
    if meant.operator != "istream" or meant.duplicates != "bag" or not usual.content_change or meant.report.by_window:
        raise UnsupportedError("System X puts out what is new whenever the content changes, as bags: CQELS-QL's profile")
    if any(kind_of(window).counts_elements for window in query.windows):
        raise UnsupportedError("System X has windows of time, not of the last n elements")


def _matched(pattern: StreamPattern, columns: dict[str, Ints], t: Ints, terms: Terms) -> Rows:
    """The elements that match a pattern, with the intervals in which its window contains them."""
    start, end = kind_of(pattern.window).validity(t, 0)
    matching, bound = np.ones(len(t), bool), dict[str, Ints]()
    for name in "spo":
        node, column = getattr(pattern.pattern, name), columns[name]
        if isinstance(node, Variable):
            matching &= bound.get(node.name, column) == column
            bound.setdefault(node.name, column)
        else:
            matching &= column == terms.number(node)
    return Rows(bound, start, end, np.ones(len(t), np.int64)).take(matching & (start < end))


def _joined(left: Rows, right: Rows) -> Rows:
    on = [v for v in left.columns if v in right.columns]
    return concat([empty([*left.columns, *right.columns]), *Indexed.of_rows(right).probe(left, on)])


def _tables(task: Task, folder: Path, parts: Parts, terms: Terms) -> list[Table]:
    """The static parts as tables, each looked up by the variables that are bound before it."""
    import pyoxigraph as ox

    store = ox.Store()
    for path in task.static:
        store.bulk_load(path=str(path))
    for graph, path in task.graphs.items():
        store.bulk_load(path=str(path), to_graph=ox.NamedNode(graph))
    connection, made = connected(folder), list[Table]()
    bound = {v for pattern in parts.streams for v in pattern.variables}
    waiting = list(parts.statics)
    while waiting:
        part = next((part for part in waiting if bound & set(part.variables)), None)
        if part is None:
            raise UnsupportedError("a static part shares no variable with the streams")
        waiting.remove(part)
        columns = _bindings(task, folder, store, part, terms)
        made.append(Table(connection, f"static{len(made)}", columns, [v for v in part.variables if v in bound]))
        bound |= set(part.variables)
    return made


def _bindings(task: Task, folder: Path, store: Any, part: StaticPart, terms: Terms) -> dict[str, Ints]:
    """The store's answers to a static part, kept for the next task over the same static data."""
    kept = task.shared / f"system-x-{hashlib.sha256(part.text.encode()).hexdigest()[:16]}.parquet"
    if not kept.exists():
        parquet.write_table(bindings(store, part.text, folder / "bindings.tsv", part.variables), kept)
    rows = parquet.read_table(kept, read_dictionary=list(part.variables))
    return {name: terms.encode(rows[name]) for name in part.variables}


CONTENDERS = (
    Contender(
        "system-x", "System X of the report: stream engine and store as black boxes, static part as tables, LRU cache", run
    ),
)
