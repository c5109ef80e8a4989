"""Stream files of named graphs (N-Quads, TriG): each named graph is one element; a triple in the default graph gives its time.

Other triples of the default graph about an element belong to it (``rsp-ql-star-2019``, Definition 2). The file is read as a
stream: an element is emitted once its time is known and another graph has begun. So memory holds the triples between a graph and
its time and, for each earlier graph, a digest of its name and of its time. The triples of a graph must be contiguous.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
from numpy.typing import NDArray

from cqels_opt.errors import DataError
from cqels_opt.rdf.documents import RDF_STAR, LineByLine, TermTexts
from cqels_opt.rdf.lines import LONGEST_LINE, UNREADABLE, open_bytes
from cqels_opt.rdf.tabular import Reject, Rows
from cqels_opt.rdf.terms import is_literal, literal_parts

GENERATED_AT = "http://www.w3.org/ns/prov#generatedAtTime"
"""The default predicate from a graph to its time."""

BATCH = 1 << 14
_FORMATS = {".nq": ox.RdfFormat.N_QUADS, **dict.fromkeys((".trig", ".trigs", ".trigstar"), ox.RdfFormat.TRIG)}

_LIKE_MADE = re.compile(r"a[0-9a-f]{8}-[0-9]+_*")
Statement: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Graph:
    """A named graph whose time or end has not been read; ``about`` are the element's triples in the default graph."""

    triples: dict[Statement, int] = field(default_factory=dict)  # with their lines; a graph is a set
    about: dict[Statement, int] = field(default_factory=dict)
    time: str | None = None
    time_line: int = 0


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


class _Elements:
    """Groups the quads of a file into elements: the pending ones, and a batch of complete ones.

    An element is complete once its time is known and the file mentions another one. Elements are emitted in the order in which
    they began. A triple of the default graph belongs to the element whose graph is its subject, or else to the element mentioned
    last.
    """

    def __init__(self, time_predicate: str) -> None:
        self._time_predicate = f"<{time_predicate}>"
        self._waiting: dict[str, _Graph] = {}  # in order of their first triples
        self._current = ""
        self._announced: dict[str, _Graph] = {}  # graphs that the default graph mentions before they begin
        self._finished: dict[bytes, bytes] = {}  # digest of name -> digest of time; a collision is as unlikely as equal UUIDs
        self._number = 0
        self._rows: list[tuple[str, str, str, str | None, str, int, int]] = []
        self._rejects: list[Reject] = []
        self._times: dict[int, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._rows) + len(self._rejects)

    def add(self, s: str, p: str, o: str, graph: str | None, line: int) -> None:
        """Adds a quad: a triple of an element's graph, or of the default graph about the element."""
        if graph is not None:
            self._add_triple(graph, (s, p, o), line)
        elif p == self._time_predicate:
            self._add_time((s, p, o), line)
        else:
            self._add_about((s, p, o), line)

    def _set_current(self, name: str) -> None:
        if name != self._current:
            self._current = name
            self._emit_complete()

    def _add_triple(self, name: str, triple: Statement, line: int) -> None:
        if name not in self._waiting:
            if _digest(name) in self._finished:
                self.reject(line, f"the triples of graph {name} do not stand together")
                return
            self._waiting[name] = self._announced.pop(name) if name in self._announced else _Graph()
        self._set_current(name)
        self._waiting[name].triples.setdefault(triple, line)

    def _add_time(self, triple: Statement, line: int) -> None:
        name, _, time = triple
        if not is_literal(time):
            self.reject(line, f"the time of graph {name} is {time}, not a literal")
            return
        value = literal_parts(time)[0]
        graph = self._waiting.get(name) or self._announced.get(name)
        known_time = graph.time if graph is not None else None
        known = self._finished.get(_digest(name)) if known_time is None else _digest(known_time)
        if known is not None:
            if known != _digest(value):
                self.reject(line, f"graph {name} has a second time, {value!r}")
            return
        if graph is None:
            graph = self._announced[name] = _Graph()
        graph.time, graph.time_line = value, line
        graph.about.setdefault(triple, line)
        self._set_current(name)

    def _add_about(self, triple: Statement, line: int) -> None:
        name = triple[0]
        if _digest(name) in self._finished:
            self.reject(line, f"the default graph speaks of graph {name} after its element: its triples stand next to its time")
            return
        if name in self._waiting or name in self._announced:
            self._set_current(name)
        graph = self._waiting.get(self._current) or self._announced.get(self._current)
        if graph is not None:
            graph.about.setdefault(triple, line)

    def _emit_complete(self) -> None:
        """Moves complete elements from the head of the queue to the batch."""
        while self._waiting:
            name, graph = next(iter(self._waiting.items()))
            if graph.time is None or name == self._current:
                return
            about = {triple: line for triple, line in graph.about.items() if triple not in graph.triples}
            for of, statements in ((name, graph.triples), (None, about)):
                self._rows.extend((s, p, o, of, graph.time, line, self._number) for (s, p, o), line in statements.items())
            self._times[self._number] = name, graph.time_line
            self._number += 1
            del self._waiting[name]
            self._finished[_digest(name)] = _digest(graph.time)

    def end(self) -> None:
        """Ends the file: graphs with a time are complete, graphs without a time are rejected."""
        for name, graph in list(self._waiting.items()):
            if graph.time is None:
                reason = f'graph {name} has no time: the default graph needs {name} {self._time_predicate} "…"'
                self._rejects.extend(Reject(line, reason) for line in graph.triples.values())
                del self._waiting[name]
        self._set_current("")

    def reject(self, line: int, reason: str) -> None:
        """Rejects a line."""
        self._rejects.append(Reject(line, reason))

    def take(self) -> tuple[Rows, NDArray[np.int64]]:
        """The batch, with the element number of each row; empties the batch."""
        s, p, o, g, t, line, element = zip(*self._rows) if self._rows else ((),) * 7
        terms: dict[str, Any] = {name: pa.array(column, pa.string()) for name, column in zip("spogt", (s, p, o, g, t))}
        rows = Rows(**terms, line=np.array(line, np.int64), rejects=self._rejects, times=self._times)
        self._rows, self._rejects, self._times = [], [], {}
        return rows, np.array(element, np.int64)


def read_graphs(path: Path, kind: str, time_predicate: str = GENERATED_AT) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """The elements of a file in order of their first triples: rows, and the element number of each row.

    The triples of the default graph about an element (its time and others) are rows of it without a graph. The lines of a graph
    without a time, with two times, or with triples that are not contiguous are rejected.
    """
    elements = _Elements(time_predicate)
    with open_bytes(path) as file:
        lines = LineByLine(file, LONGEST_LINE)
        texts = TermTexts(kind in RDF_STAR, _label, _made_in(path))
        try:
            for quad in _quads(lines, kind, elements):
                for found in texts.quads(quad):
                    elements.add(*found, lines.line)
                if len(elements) >= BATCH:
                    yield elements.take()
        except UNREADABLE as error:
            raise DataError(f"{path}:{lines.line}: cannot be read on: {error}; check that the file is whole") from error
    yield elements.take()  # a statement that was rejected may be the time of a graph: it is reported first
    elements.end()
    yield elements.take()


def _label(label: str) -> str:
    """A blank node with a label, distinct from all names of :func:`_made_in`."""
    return f"_:{label}_" if _LIKE_MADE.fullmatch(label) else f"_:{label}"


def _made_in(path: Path) -> Callable[[int], str]:
    """Names for a file's blank nodes without a label: stable across reads, distinct from those of other files of the stream."""
    file = zlib.crc32(str(path).encode())
    return lambda number: f"_:a{file:08x}-{number}"


def _quads(lines: LineByLine, kind: str, elements: _Elements) -> Iterator[ox.Quad | None]:
    """The quads of a file, None after the last; the parser continues after a statement that it rejects."""
    parser = ox.parse(cast("BinaryIO", lines), format=_FORMATS[kind])
    while True:
        try:
            quad = next(parser)
        except StopIteration:
            yield None
            return
        except SyntaxError as error:
            reason = f"is not {'N-Quads' if kind == '.nq' else 'TriG'}: {error.msg}"
            at_end = " of file" if reason.endswith("Unexpected end") else ""
            elements.reject(error.lineno or lines.line, lines.reason(f"{reason}{at_end}"))
            continue
        yield quad
