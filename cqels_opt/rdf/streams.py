"""Reads stream files: their rows, times and elements.

Terms stay as written in the file (N-Triples text); only text that cannot be a term is rejected here, as are bad lines and bad
times. Terms are canonicalized where they are encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.errors import DataError, option
from cqels_opt.rdf.graphs import GENERATED_AT, read_graphs
from cqels_opt.rdf.lines import block_of, check_file, format_of
from cqels_opt.rdf.tabular import Reject, Rows, ndjson_rows, read_csv, read_ndjson, read_parquet
from cqels_opt.rdf.times import EXPECTED, GREATEST, in_range, mask_of, parse_times

_FIELDS: list[pa.Field[Any]] = [
    pa.field("s", pa.string(), nullable=False),
    pa.field("p", pa.string(), nullable=False),
    pa.field("o", pa.string(), nullable=False),
    pa.field("g", pa.string()),
    pa.field("t", pa.int64(), nullable=False),
    pa.field("line", pa.int64(), nullable=False),
    pa.field("element", pa.int64(), nullable=False),
]
STREAM_ROWS = pa.schema(_FIELDS)
"""``t`` in milliseconds, ``line`` from 1 (in Parquet: the row), ``element`` from 0 within the file."""

FORMATS = (".ndjson", ".jsonl", ".csv", ".parquet", ".nq", ".trig", ".trigs", ".trigstar")
OnError = Literal["fail", "skip"]


def how_to_skip() -> str:
    """What to do about a bad line, for messages."""
    return "correct it, or leave bad lines out with " + option('on_error="skip"', "--on-error skip")


def read_stream(
    path: Path,
    *,
    time_predicate: str = GENERATED_AT,
    on_error: OnError = "fail",
    rejected: Callable[[Reject], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The elements of a stream file in batches of ``STREAM_ROWS``; a batch never ends within an element.

    Elements are in file order. In a format with columns, rows with equal ``g`` and ``t`` are one element if no row of another
    time is between them; the element is at the position of its first row. In N-Quads and TriG each named graph is one element,
    and its time is the object of ``<graph> <time_predicate> "…"`` in the default graph.

    With ``on_error="fail"`` the first unusable line raises ``DataError("path:line: …")``; with ``"skip"`` such lines are passed
    to ``rejected``.
    """
    check_file(path)
    columns = {".ndjson": read_ndjson, ".jsonl": read_ndjson, ".csv": read_csv, ".parquet": read_parquet}
    kind = format_of(path)

    def refuse(rejects: Iterable[Reject]) -> None:
        for reject in sorted(dict.fromkeys(rejects), key=lambda reject: reject.line):
            if on_error == "fail":
                raise DataError(f"{path}:{reject.line}: {reject.reason}; {how_to_skip()}")
            if rejected is not None:
                rejected(reject)

    if kind in columns and not (kind == ".parquet" and path.suffix.lower() != ".parquet"):
        yield from _elements(_checked(rows, refuse) for rows in columns[kind](path))
    elif kind in FORMATS[4:]:
        for rows, element in read_graphs(path, kind, time_predicate):
            batch = _checked(rows, refuse, element)
            if len(batch):
                yield batch.cast(STREAM_ROWS)
    else:
        raise DataError(f"{path}: unknown kind of stream file; known are {', '.join(FORMATS)}, as text also .gz and .zst")


def read_lines(text: bytes, line: int, rejected: Callable[[Reject], None]) -> tuple[list[pa.RecordBatch], int]:
    """The elements of some lines of NDJSON that continue a file at ``line``, and the bytes of the lines that were read.

    Lines at the end are left where another line may still belong to their graphs, that is, has their time.
    """
    block, rejects = block_of(text, line), list[Reject]()
    batch = _checked(ndjson_rows(block), rejects.extend)
    if batch.column("g").null_count < len(batch):
        times = batch.column("t").to_numpy()
        run = int(np.append(0, np.flatnonzero(times[1:] != times[:-1]) + 1)[-1])
        if batch.column("g")[run:].null_count < len(batch) - run:
            first = int(batch.column("line")[run].as_py())
            batch, rejects = batch[:run], [reject for reject in rejects if reject.line < first]
            text = text[: int(block.begins[np.searchsorted(block.lines, first)])]
    for reject in sorted(rejects, key=lambda reject: reject.line):
        rejected(reject)
    return ([_number(batch, 0)[0]] if len(batch) else []), len(text)


def _checked(rows: Rows, refuse: Callable[[Iterable[Reject]], None], element: NDArray[np.int64] | None = None) -> pa.RecordBatch:
    """The usable rows with parsed times; rejects the others, in line order."""
    count = len(rows.line)
    good = np.ones(count, np.bool_)
    rejects = list(rows.rejects)

    def keep(mask: NDArray[np.bool_], reason: Callable[[int], str]) -> None:
        nonlocal good
        for i in np.flatnonzero(good & ~mask).tolist():
            rejects.append(Reject(int(rows.line[i]), reason(i)))
        good = good & mask

    for name, column, begins in (("s", rows.s, "<_"), ("p", rows.p, "<"), ("o", rows.o, '<_"')):
        keep(_begins(column, begins), lambda i, n=name, c=column: _bad_term(n, c[i].as_py()))  # type: ignore[misc]
        if name == "p" or (name == "s" and element is None):  # in RDF-star documents a quoted triple can be a subject
            keep(~mask_of(pc.starts_with(column, "<<")), lambda i, n=name, c=column: _bad_term(n, c[i].as_py()))  # type: ignore[misc]
    graph = (
        pc.if_else(pc.equal(rows.g, pa.scalar("")), pa.scalar(None, pa.string()), rows.g) if rows.g.null_count < count else rows.g
    )
    keep(
        _begins(graph, "<_") & ~mask_of(pc.starts_with(graph, "<<")) | mask_of(graph.is_null()),
        lambda i: _bad_term("g", graph[i].as_py()),
    )
    if pa.types.is_string(rows.t.type):
        times, valid = parse_times(rows.t)
    else:
        times = rows.t.fill_null(GREATEST + 1).to_numpy()
        valid = in_range(times)
    keep(valid, lambda i: _bad_time(rows, i, None if element is None else int(element[i])))
    refuse(rejects)
    columns = [rows.s, rows.p, rows.o, graph, pa.array(times, pa.int64()), pa.array(rows.line, pa.int64())]
    if element is not None:
        columns.append(pa.array(element, pa.int64()))
    batch = pa.RecordBatch.from_arrays(columns, names=STREAM_ROWS.names[: len(columns)])
    return batch if good.all() else batch.filter(pa.array(good))


def _begins(column: Any, characters: str) -> NDArray[np.bool_]:
    """Whether each text begins like a term that is allowed here: ``<`` an IRI, ``_`` a blank node, ``"`` a literal."""
    found = np.zeros(len(column), np.bool_)
    if column.null_count == len(column):
        return found
    for character in characters:
        found |= mask_of(pc.starts_with(column, "_:" if character == "_" else character))
        if found.all():
            break
    return found


def _bad_term(name: str, text: str | None) -> str:
    if text is None:
        return f"{name} is missing"
    if text[:1] == '"' or (name == "p" and text[:1] == "_"):
        return f"{name} is {text[:80]}, which cannot stand there: it must be an IRI{'' if name == 'p' else ' or a blank node'}"
    if text.startswith("<<") and name != "o":
        return f"{name} is a triple term, {text[:80]}, which cannot stand there: give a node that rdf:reifies it"
    note = ' (in CSV the quotes of a literal are doubled, and quoted: """text""")' if name == "o" else ""
    return f"{name} is not an N-Triples term: {text[:80]!r}; write <iri>" + (', _:label or "text"' + note if name != "p" else "")


def _bad_time(rows: Rows, row: int, element: int | None) -> str:
    """Why a time cannot be used. That of a named graph is a statement on a line of its own."""
    if not rows.t[row].is_valid:
        return "t is missing"
    place = "t" if element is None else "the time of graph {} in line {}".format(*rows.times[element])
    return f"{place} is not a time: {rows.t[row].as_py()!r}; expected {EXPECTED}"


def _elements(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Numbers the elements. The last run of rows with one time is held back while another row may still belong to its graphs."""
    number, pending = 0, None
    for batch in batches:
        if pending is not None:
            batch = pa.Table.from_batches([pending, batch]).combine_chunks().to_batches()[0]
            pending = None
        if batch.column("g").null_count < len(batch):
            times = batch.column("t").to_numpy()
            changes = np.flatnonzero(times[1:] != times[:-1])
            run = int(changes[-1]) + 1 if len(changes) else 0
            if batch.column("g")[run:].null_count < len(batch) - run:
                batch, pending = batch[:run], batch[run:]
        if len(batch):
            batch, number = _number(batch, number)
            yield batch
    if pending is not None:
        yield _number(pending, number)[0]


def _number(batch: pa.RecordBatch, number: int) -> tuple[pa.RecordBatch, int]:
    """The rows with their element numbers, the rows of an element contiguous; and the next element number."""
    count = len(batch)
    graphs = batch.column("g")
    element = np.arange(count, dtype=np.int64)
    if graphs.null_count < count:
        times = batch.column("t").to_numpy()
        runs = np.concatenate([[0], np.cumsum(times[1:] != times[:-1])])
        codes = graphs.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        alone = codes < 0
        codes[alone] = count + np.flatnonzero(alone)  # a row without a graph is an element by itself
        _, first, group = np.unique(runs * (2 * count) + codes, return_index=True, return_inverse=True)
        element = np.argsort(np.argsort(first))[group]
        order = np.argsort(element, kind="stable")
        if (order != np.arange(count)).any():
            batch, element = batch.take(order), element[order]
    columns = [*batch.columns, pa.array(element + number, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=STREAM_ROWS), number + int(element[-1]) + 1
