"""Stream files of named graphs (N-Quads, TriG): each named graph is one element, and a triple in the default graph has its time.

The file is read as a stream: an element is handed on once its time is known and another graph has begun, so memory holds what is
between a graph and its time. The triples of a graph therefore stand together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
import zstandard
from numpy.typing import NDArray

from cqels_opt.errors import DataError
from cqels_opt.rdf.lines import open_bytes
from cqels_opt.rdf.tabular import Reject, Rows

GENERATED_AT = "http://www.w3.org/ns/prov#generatedAtTime"
"""The default predicate between a graph and its time."""

BATCH = 1 << 14
_FORMATS = {".nq": ox.RdfFormat.N_QUADS, ".trig": ox.RdfFormat.TRIG, ".trigs": ox.RdfFormat.TRIG}


class _LineByLine:
    """A file that gives its parser one line at a time, so that ``line`` is where the parser stands."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.line = file, 0

    def read(self, _size: int = -1) -> bytes:
        self.line += 1
        return self._file.readline()


@dataclass(slots=True)
class _Graph:
    """A named graph that waits for its time, or for its end."""

    triples: list[tuple[str, str, str, int]] = field(default_factory=list)
    time: str | None = None


class _Elements:
    """The elements of a file as its quads come by: those that wait, and a batch of those that are whole.

    An element is whole once its time is known and another graph has begun. Elements leave in the order in which they began.
    """

    def __init__(self, time_predicate: str) -> None:
        self._time_predicate = time_predicate
        self._waiting: dict[str, _Graph] = {}  # in order of their first triples
        self._current = ""
        self._times: dict[str, str] = {}  # of graphs that have not begun
        self._finished: dict[str, str] = {}  # with their times
        self._number = 0
        self._rows: list[tuple[str, str, str, str, str, int, int]] = []
        self._rejects: list[Reject] = []

    def __len__(self) -> int:
        return len(self._rows) + len(self._rejects)

    def add(self, quad: ox.Quad, line: int) -> None:
        """Takes a quad: a triple of an element, or its time."""
        name = str(quad.graph_name)
        if name != "DEFAULT":
            self._add_triple(name, (str(quad.subject), str(quad.predicate), str(quad.object), line))
        elif quad.predicate.value == self._time_predicate:
            self._add_time(str(quad.subject), quad.object, line)

    def _add_triple(self, name: str, triple: tuple[str, str, str, int]) -> None:
        if name in self._finished:
            self.reject(triple[3], f"the triples of graph {name} do not stand together")
            return
        if name != self._current:
            self._current = name
            if name not in self._waiting:
                self._waiting[name] = _Graph(time=self._times.pop(name, None))
            self._hand_on()
        self._waiting[name].triples.append(triple)

    def _add_time(self, name: str, time: object, line: int) -> None:
        if not isinstance(time, ox.Literal):
            self.reject(line, f"the time of graph {name} is {time}, not a literal")
            return
        graph = self._waiting.get(name)
        known = graph.time if graph is not None else self._finished.get(name, self._times.get(name))
        if known is not None:
            if known != time.value:
                self.reject(line, f"graph {name} has a second time, {time.value!r}")
        elif graph is not None:
            graph.time = time.value
            self._hand_on()
        else:
            self._times[name] = time.value

    def _hand_on(self) -> None:
        """Moves the elements that are whole from the head of the queue to the batch."""
        while self._waiting:
            name, graph = next(iter(self._waiting.items()))
            if graph.time is None or name == self._current:
                return
            self._rows.extend((s, p, o, name, graph.time, line, self._number) for s, p, o, line in graph.triples)
            self._number += 1
            del self._waiting[name]
            self._finished[name] = graph.time

    def end(self) -> None:
        """The file has ended: what has a time is whole, what has none is refused."""
        for name, graph in list(self._waiting.items()):
            if graph.time is None:
                reason = f'graph {name} has no time: the default graph needs {name} <{self._time_predicate}> "…"'
                self._rejects.extend(Reject(line, reason) for *_, line in graph.triples)
                del self._waiting[name]
        self._current = ""
        self._hand_on()

    def reject(self, line: int, reason: str) -> None:
        """Refuses a line."""
        self._rejects.append(Reject(line, reason))

    def take(self) -> tuple[Rows, NDArray[np.int64]]:
        """The batch, with the element of each row; it is empty afterwards."""
        s, p, o, g, t, line, element = zip(*self._rows) if self._rows else ((),) * 7
        terms: dict[str, Any] = {name: pa.array(column, pa.string()) for name, column in zip("spogt", (s, p, o, g, t))}
        rows = Rows(**terms, line=np.array(line, np.int64), rejects=self._rejects)
        self._rows, self._rejects = [], []
        return rows, np.array(element, np.int64)


def read_graphs(
    path: Path, kind: str, time_predicate: str = GENERATED_AT, consumed: Callable[[int], None] | None = None
) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """The elements of a file in order of their first triples: rows, and the number of the element of each row.

    Other triples of the default graph are passed over. A graph without a time, with two, or whose triples do not stand together
    has its lines refused.
    """
    elements = _Elements(time_predicate)
    with open_bytes(path, consumed) as file:
        lines = _LineByLine(file)
        try:
            for quad in _quads(lines, kind, elements):
                elements.add(quad, lines.line)
                if len(elements) >= BATCH:
                    yield elements.take()
        except (OSError, EOFError, zstandard.ZstdError) as error:
            raise DataError(f"{path}:{lines.line}: cannot be read on: {error}; check that the file is whole") from error
    elements.end()
    yield elements.take()


def _quads(lines: _LineByLine, kind: str, elements: _Elements) -> Iterator[ox.Quad]:
    """The quads of a file; the parser goes on after a statement that it refuses."""
    parser = ox.parse(lines, format=_FORMATS[kind])  # type: ignore[arg-type]
    while True:
        try:
            quad = next(parser)
        except StopIteration:
            return
        except SyntaxError as error:
            elements.reject(error.lineno or lines.line, f"is not {'N-Quads' if kind == '.nq' else 'TriG'}: {error.msg}")
            continue
        yield quad
