"""Reads the inputs of a query with independent readers: json, csv and pyarrow for columns, pyoxigraph for RDF. Simple, not fast."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
import zstandard

from cqels_opt.errors import DataError
from cqels_opt.rdf.entities import BoundedEntities
from cqels_opt.verify.model import Element, Inputs, Triple, bare
from cqels_opt.verify.quoted import RDF_STAR, named, reifiers, text_of

PROV = "http://www.w3.org/ns/prov#generatedAtTime"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RDF_FORMATS = {
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".nq": ox.RdfFormat.N_QUADS,
    ".ttl": ox.RdfFormat.TURTLE,
    ".n3": ox.RdfFormat.N3,
    ".trig": ox.RdfFormat.TRIG,
    ".trigs": ox.RdfFormat.TRIG,
    ".trigstar": ox.RdfFormat.TRIG,
    ".ttls": ox.RdfFormat.TURTLE,
    ".ttlstar": ox.RdfFormat.TURTLE,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".xml": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
}
_COLUMNS = (".ndjson", ".jsonl", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class InputReading:
    """The inputs without late elements, the number of late elements and, with ``on_error="skip"``, of rejected rows."""

    inputs: Inputs
    late: int
    rejected: int


def read_inputs(
    streams: Sequence[tuple[str, Path]],
    static: Sequence[Path] = (),
    graphs: Sequence[tuple[str, Path]] = (),
    *,
    lateness: int = 0,
    time_predicate: str = PROV,
    on_error: Literal["fail", "skip"] = "fail",
) -> InputReading:
    """Reads stream files (or folders of them), static files and named graphs; every file is one source partition.

    ``lateness`` is in milliseconds. Raises :class:`~cqels_opt.errors.DataError` with file and line for unreadable input.
    """
    counts = {"late": 0, "rejected": 0}
    rejected = _counter(counts) if on_error == "skip" else None
    found: dict[str, list[Element]] = {}
    for place, name in enumerate(dict.fromkeys(bare(iri) for iri, _ in streams)):
        elements = found[name] = []
        for path in (p for iri, p in streams if bare(iri) == name):
            partition = [e for file in _files(path) for e in read_elements(file, f"s{place}", time_predicate, rejected)]
            kept = drop_late(partition, lateness)
            counts["late"] += len(partition) - len(kept)
            elements += kept
    default: list[Triple] = []
    named: dict[str, list[Triple]] = {bare(iri): [] for iri, _ in graphs}
    targets = [(None, path) for path in static] + [(bare(iri), path) for iri, path in graphs]
    for place, (target, path) in enumerate(targets):
        for graph, triple in read_static(path, f"d{place}", rejected):
            where = graph or target
            (default if where is None else named.setdefault(where, [])).append(triple)
    return InputReading(Inputs(found, default, named), counts["late"], counts["rejected"])


def drop_late(elements: Iterable[Element], lateness: int) -> list[Element]:
    """The elements of one source partition that are not late: t > (greatest t before) − 1 ms − lateness (SEMANTICS §4)."""
    kept: list[Element] = []
    greatest: int | None = None
    for element in elements:
        if greatest is None or element.t > greatest - 1 - lateness:
            kept.append(element)
        greatest = element.t if greatest is None else max(greatest, element.t)
    return kept


# ------------------------------------------------------------------ streams
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""The ticks of a second, by the unit of a column of times."""

Reject = Callable[[], None] | None
"""Counts a bad row that is skipped; None: a bad row raises."""


def read_elements(path: Path, scope: str = "s", time_predicate: str = PROV, reject: Reject = None) -> list[Element]:
    """The elements of one file in order of arrival; blank node labels get the scope as a prefix."""
    if _kind(path) in _COLUMNS:
        return _from_rows(path, scope, reject)
    return _from_graphs(path, scope, time_predicate)


def _from_rows(path: Path, scope: str, reject: Reject) -> list[Element]:
    """Rows with columns s p o t and optionally g: rows with equal g and t are one element."""
    terms = _Terms(scope)
    elements: list[tuple[int, str | None, list[Triple]]] = []
    graphs: dict[tuple[str, int], list[Triple]] = {}
    for number, row in _rows(path, reject):
        try:
            time = _milliseconds(row.get("t"))
            triple = terms.triple(row.get("s"), row.get("p"), row.get("o"))
            graph = terms.term(row["g"]) if row.get("g") else None
        except ValueError as error:
            if reject is None:
                raise DataError(f"{path}:{number}: {error}") from error
            reject()
            continue
        if graph is None:
            elements.append((time, None, [triple]))
        elif (graph, time) in graphs:
            graphs[graph, time].append(triple)
        else:
            graphs[graph, time] = [triple]
            elements.append((time, graph, graphs[graph, time]))
    return [Element(time, tuple(triples), graph) for time, graph, triples in elements]


def _from_graphs(path: Path, scope: str, time_predicate: str) -> list[Element]:
    """Named graphs in the order in which they begin, with their times and other triples about them in the default graph.

    A triple of the default graph belongs to the element whose graph is its subject, or else to the element mentioned last.
    """
    graphs: dict[str, list[Triple]] = {}
    about: dict[str, list[Triple]] = {}
    times: dict[str, int] = {}
    current = ""
    for graph, (s, p, o) in read_static(path, scope, None):
        if graph is not None:
            current = f"<{graph}>" if not graph.startswith("_:") else graph
            graphs.setdefault(current, []).append((s, p, o))
            continue
        if p == f"<{bare(time_predicate)}>":
            current = s
            try:
                times[s] = _milliseconds(o[1 : o.rindex('"')])
            except ValueError as error:
                raise DataError(f"{path}: the time of graph {s}: {error}") from error
        elif s in graphs or s in times:
            current = s
        about.setdefault(current, []).append((s, p, o))
    untimed = [name for name in graphs if name not in times]
    if untimed:
        raise DataError(f"{path}: graph {untimed[0]} has no time: its {bare(time_predicate)} is not in the default graph")
    return [Element(times[name], tuple(triples), name, tuple(about[name])) for name, triples in graphs.items()]


def _rows(path: Path, reject: Reject) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Numbered rows of a column format."""
    kind = _kind(path)
    if kind == ".parquet":
        table = pq.read_table(path)
        if "t" in table.column_names and pa.types.is_timestamp(unit := table.schema.field("t").type):
            ticks = table.column("t").cast(pa.int64()).to_pylist()  # Python has no times after the year 9999
            times = [None if tick is None else tick * 1000 // _TICKS[unit.unit] for tick in ticks]
            table = table.set_column(table.column_names.index("t"), "t", pa.array(times, pa.int64()))
        yield from enumerate(table.to_pylist(), 1)
        return
    with io.TextIOWrapper(_open(path), encoding="utf-8", newline="") as lines:
        if kind == ".csv":
            reader = csv.DictReader(lines)
            for row in reader:
                yield reader.line_num, row
            return
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("a line is not an object")
            except ValueError as error:
                if reject is None:
                    raise DataError(f"{path}:{number}: not JSON: {error}") from error
                reject()
                continue
            yield number, row


def _milliseconds(time: Any) -> int:
    """Integer milliseconds, or an ISO 8601 time, floored; without a zone it is UTC."""
    if isinstance(time, bool) or time is None:
        raise ValueError(f"bad time {time!r}")
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        if re.fullmatch(r"\s*[+-]?\d+\s*", time):
            return int(time)
        try:
            time = datetime.fromisoformat(time.strip())
        except ValueError as error:
            raise ValueError(f"bad time {time!r}") from error
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    if not isinstance(time, datetime):
        raise ValueError(f"bad time {time!r}")
    moment = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (moment - _EPOCH) // timedelta(milliseconds=1)


class _Terms:
    """N-Triples terms of one scope, each parsed once."""

    def __init__(self, scope: str) -> None:
        self._scope, self._known = scope, dict[str, str]()

    def term(self, text: Any) -> str:
        if not isinstance(text, str):
            raise ValueError(f"a term is missing: {text!r}")
        if text not in self._known:
            try:
                triples = list(ox.parse(f"<urn:s> <urn:p> {text.strip()} .", format=ox.RdfFormat.N_TRIPLES))
            except SyntaxError as error:
                raise ValueError(f"not an N-Triples term: {text}") from error
            if len(triples) != 1:
                raise ValueError(f"not one N-Triples term: {text}")
            self._known[text] = scoped(triples[0].object, self._scope)
        return self._known[text]

    def triple(self, s: Any, p: Any, o: Any) -> Triple:
        found = self.term(s), self.term(p), self.term(o)
        if found[0].startswith('"'):
            raise ValueError(f"a subject cannot be a literal: {s}")
        if found[0].startswith("<<("):
            raise ValueError(f"a subject cannot be a triple term: {s}")
        if not found[1].startswith("<") or found[1].startswith("<<("):
            raise ValueError(f"a predicate must be an IRI: {p}")
        return found


def scoped(term: Any, scope: str, own: Mapping[str, Any] | None = None) -> str:
    """The canonical text of a pyoxigraph term; blank node labels get the scope as a prefix; ``own`` are quoted triples."""
    return text_of(term, lambda label: named(label, own or {}, lambda other: f"_:{scope}_{other}"))


# ------------------------------------------------------------------ static data
def read_static(path: Path, scope: str = "d", reject: Reject = None) -> Iterator[tuple[str | None, Triple]]:
    """The triples of a static file, each with its graph's IRI (None: the file names no graph)."""
    if _kind(path) == ".parquet":
        terms = _Terms(scope)
        for number, row in _rows(path, None):
            try:
                yield (
                    (bare(terms.term(row["g"])) if row.get("g") else None),
                    terms.triple(row.get("s"), row.get("p"), row.get("o")),
                )
            except ValueError as error:
                if reject is None:
                    raise DataError(f"{path}:{number}: {error}") from error
                reject()
        return
    rdf = _RDF_FORMATS.get(_kind(path))
    if rdf is None:
        raise DataError(f"{path}: unknown format {_kind(path)!r}: use one of {' '.join([*_RDF_FORMATS, '.parquet'])}")
    with _open(path) as file:
        if reject is not None and rdf in (ox.RdfFormat.N_TRIPLES, ox.RdfFormat.N_QUADS):
            yield from _good_lines(file, rdf, scope, reject)
            return
        try:
            checked: Any = BoundedEntities(file) if rdf == ox.RdfFormat.RDF_XML else file
            quads = ox.parse(checked, format=rdf, without_named_graphs=False, rename_blank_nodes=False)
            if _kind(path) not in RDF_STAR:
                yield from (_graph_and_triple(quad, scope) for quad in quads)
                return
            whole = list(quads)
            own = reifiers(whole)
            yield from (_graph_and_triple(quad, scope, own) for quad in whole)
        except SyntaxError as error:
            raise DataError(f"{path}:{error.lineno or 0}: {error.msg}") from error


def _good_lines(file: Any, rdf: Any, scope: str, reject: Callable[[], None]) -> Iterator[tuple[str | None, Triple]]:
    for line in file:
        try:
            quads = list(ox.parse(line, format=rdf))
        except SyntaxError:
            reject()
            continue
        yield from (_graph_and_triple(quad, scope) for quad in quads)


def _graph_and_triple(quad: Any, scope: str, own: Mapping[str, Any] | None = None) -> tuple[str | None, Triple]:
    s, p, o = (scoped(part, scope, own) for part in (quad.subject, quad.predicate, quad.object))
    graph = getattr(quad, "graph_name", ox.DefaultGraph())
    return (None if isinstance(graph, ox.DefaultGraph) else bare(scoped(graph, scope))), (s, p, o)


# ------------------------------------------------------------------ files
def _files(path: Path) -> list[Path]:
    """A file, or a folder's files in name order."""
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith((".", "_")))


def _kind(path: Path) -> str:
    """The extension that determines the format, without ``.gz`` and ``.zst``."""
    return (Path(path.stem) if path.suffix in (".gz", ".zst") else path).suffix.lower()


def _open(path: Path) -> Any:
    """The file's bytes, decompressed."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if path.suffix == ".gz":
        return gzip.open(raw)
    if path.suffix == ".zst":
        return io.BytesIO(zstandard.ZstdDecompressor().stream_reader(raw).read())
    return raw


def _counter(counts: dict[str, int]) -> Callable[[], None]:
    def count() -> None:
        counts["rejected"] += 1

    return count
